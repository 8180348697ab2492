/**
 * Commands for each verb, by rank: from agentpod.toml, files of other platforms, the languages found, task
 * runners and CI.
 */
import { commandSequence, ownLines } from '../../../util/shell/shell-script.ts'
import type { Detected } from '../../detect/detect.ts'
import { type Finding, VERBS, type Verb } from '../../detect/finding.ts'
import { RANKS, type Rejected } from '../../evidence.ts'
import { rankOfFile } from '../../source-rank.ts'
import type { CommandPlan, Plan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { whyBeaten } from './by-rank.ts'

export function planCommands(
  input: PlanInput,
  findings: readonly Finding[],
  detected: Detected,
): Plan['commands'] {
  const of = (verb: Verb): CommandPlan[] => {
    const wish = input.file?.data.lifecycle[verb]
    if (wish === false) return []
    const said = detected.commands[verb]
    return chosen([
      ...(wish
        ? [
            [
              {
                directory: '',
                run: wish.commands.length === 1 ? (wish.commands[0] ?? '') : commandSequence(wish.commands),
                rank: 'agentpod.toml' as const,
                evidence: {
                  file: input.file?.name ?? '',
                  line: input.file?.lineOf(['lifecycle', verb]),
                  said: `[lifecycle] ${verb}`,
                },
              },
            ],
          ]
        : []),
      ...detected.formats.map(({ commands, rank }) =>
        (commands[verb] ?? []).map((command) => ({ directory: '', ...command, rank })),
      ),
      findings.flatMap((finding) => {
        const command = finding.commands[verb]
        return command ? [{ directory: finding.directory, ...command, rank: 'manifest' as const }] : []
      }),
      said ? [{ directory: '', ...said, rank: rankOfFile(said.evidence.file) }] : [],
    ])
  }
  return Object.fromEntries(VERBS.map((verb) => [verb, of(verb)])) as unknown as Plan['commands']
}

type Said = Omit<CommandPlan, 'beat'>

/** The commands of the strongest source; among sources of one rank, of the first. */
function chosen(sources: readonly (readonly Said[])[]): CommandPlan[] {
  const [best = [], ...others] = sources
    .filter((source) => source.length > 0)
    .toSorted(([a], [b]) => RANKS.indexOf(a?.rank ?? 'default') - RANKS.indexOf(b?.rank ?? 'default'))
  return best.map((command, index) => ({
    ...command,
    // With several commands, what lost belongs to all of them and is shown once.
    beat: index > 0 ? [] : others.flat().map((lost) => rejected(command, lost)),
  }))
}

function rejected(command: Said, lost: Said): Rejected {
  const isSame = lost.run === command.run && lost.directory === command.directory
  return {
    value: ownLines(lost.run)[0] ?? '',
    evidence: lost.evidence,
    why: whyBeaten(command, lost, isSame),
  }
}
