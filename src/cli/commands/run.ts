import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'
import { AGENT_OPTIONS } from '../args/agent-options.ts'
import { imageOption } from '../args/options.ts'
import { type Parsed, parseArgs } from '../args/parse.ts'
import { checkAgentRun, checkCommandRun } from '../args/refuse.ts'
import { RUN_OPTIONS } from '../args/run-options.ts'
import type { Command, CommandContext } from '../command.ts'
import { runHere } from '../sandbox/run-here.ts'

export const command: Command = {
  usage: [
    'agentpod run AGENT PROMPT [options]',
    'agentpod run --agent AGENT[:N]... PROMPT [options]',
    'agentpod run [options] [--] COMMAND [ARG...]',
  ].join('\n       '),
  examples: [
    'agentpod run claude "fix the failing test"',
    'agentpod run --agent claude --agent codex:2 "make the parser faster" --time 30m --max-cost 5',
    'agentpod run claude --prompt-file task.md  or: ... | agentpod run claude -',
    'agentpod run -- npm test',
    'agentpod run --base debian -- python3 -V',
    'agentpod run --no-project --image debian:12 -- cat /etc/os-release',
    'agentpod run --bare -- ls                 nothing detected, nothing built',
    'agentpod run --from golden -- npm test',
    'agentpod run --preset npm -- npm ci',
    'agentpod run --learn -- make              print the hosts that it needs',
    'agentpod run --keep --name fix -- bash -c "sed -i s/a/b/ README.md"',
  ],
  options: { ...RUN_OPTIONS, ...AGENT_OPTIONS },
  async details() {
    const { AGENTS } = await import('../../agents/agents.ts')
    return ['agents:', `  ${AGENTS.map(({ name }) => name).join(', ')}`]
  },
  // An agent's prompt may come from a file, from standard input or from an editor.
  words: { min: 0, max: 100_000, rest: true },
  async run(ctx, parsed) {
    // Agents are loaded only if the first word may be an agent's name, which `--` rules out.
    const names = parsed.isLiteral ? NO_NAMES : (await import('../../agents/agents.ts')).AGENT_NAMES
    const agents = agentsIn(parsed, names)
    if (agents) {
      checkAgentRun(agents.parsed)
      const { runAgents } = await import('../runs/run-agents.ts')
      return runAgents(ctx, agents.parsed, agents.named)
    }
    const [program, ...args] = await commandOf(ctx, parsed)
    if (program === undefined)
      throw invalid('words.missing', 'missing argument: which agent or command?', command.usage)
    checkCommandRun(parsed)
    checkAgentName(program, args, names, ctx.env)
    return runHere(ctx, parsed, { program, args })
  },
}

/** Without a command, an image runs the one that it is made for. */
async function commandOf(ctx: CommandContext, parsed: Parsed): Promise<readonly string[]> {
  const ref = imageOption(parsed)
  if (parsed.words.length > 0 || ref === undefined || !parsed.has('no-project')) return parsed.words
  const { imageCommand } = await import('../sandbox/image-command.ts')
  return imageCommand(ctx, ref, parsed.value('provider'))
}

const NO_NAMES: ReadonlySet<string> = new Set()

/** Shorter words resemble too many programs. */
const SHORTEST_GUESS = 4

/** Refuses a misspelt name of an agent, followed by a prompt, if this machine has no program of that name. */
function checkAgentName(
  word: string,
  args: readonly string[],
  names: ReadonlySet<string>,
  env: CommandContext['env'],
): void {
  const meant = word.length < SHORTEST_GUESS ? undefined : nearest(word.toLowerCase(), names)
  if (meant === undefined || args.length === 0 || word.includes('/')) return
  const isProgram = (env['PATH'] ?? '').split(':').some((at) => at !== '' && existsSync(join(at, word)))
  if (isProgram) return
  throw invalid(
    'agent.unknown',
    `there is no agent ${JSON.stringify(word)}`,
    `did you mean ${meant}? To run a program of this name: agentpod run -- ${word}`,
  )
}

/** The agents that are named: by option, or by the first word. Their options may follow the prompt. */
function agentsIn(
  parsed: Parsed,
  names: ReadonlySet<string>,
): { readonly named: readonly string[]; readonly parsed: Parsed } | undefined {
  const [first = '', ...rest] = parsed.words
  const isNamed = names.has((first.split(':', 1)[0] ?? '').toLowerCase())
  const named = parsed.values('agent')
  if (named.length === 0 && !isNamed) return undefined
  const words = isNamed && named.length === 0 ? rest : parsed.words
  const grammar = { ...command, words: { min: 0, max: 100_000 } }
  const whole = parsed.isLiteral ? parsed : parsed.with(parseArgs(words, grammar))
  return {
    named: named.length > 0 ? whole.values('agent') : [first, ...whole.values('agent')],
    parsed: whole,
  }
}
