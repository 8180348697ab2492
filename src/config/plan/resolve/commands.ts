/**
 * Commands for each verb: from agentpod.toml, else from the languages found, else from task runners and CI.
 */
import { commandSequence } from '../../../util/shell/shell-script.ts'
import type { Detected } from '../../detect/detect.ts'
import { type Finding, VERBS, type Verb } from '../../detect/finding.ts'
import type { CommandPlan, Plan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'

export function planCommands(
  input: PlanInput,
  findings: readonly Finding[],
  detected: Detected,
): Plan['commands'] {
  const of = (verb: Verb): CommandPlan[] => {
    const wish = input.file?.data.lifecycle[verb]
    if (wish === false) return []
    if (wish)
      return [
        {
          directory: '',
          run: wish.commands.length === 1 ? (wish.commands[0] ?? '') : commandSequence(wish.commands),
          rank: 'agentpod.toml',
          evidence: {
            file: input.file?.name ?? '',
            line: input.file?.lineOf(['lifecycle', verb]),
            said: `[lifecycle] ${verb}`,
          },
        },
      ]
    const own = findings.flatMap((finding): CommandPlan[] => {
      const command = finding.commands[verb]
      return command ? [{ directory: finding.directory, ...command, rank: 'manifest' }] : []
    })
    const said = detected.commands[verb]
    // A Procfile exists to say how the project is started.
    const fallback = own.length === 0 || said?.evidence.file === 'Procfile' ? said : undefined
    return fallback ? [{ directory: '', ...fallback, rank: 'agent file' }] : own
  }
  return Object.fromEntries(VERBS.map((verb) => [verb, of(verb)])) as unknown as Plan['commands']
}
