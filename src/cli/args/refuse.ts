/** Options that would have no effect, refused before anything is made. */
import { invalid } from '../../core/error.ts'
import { AGENT_OPTIONS } from './agent-options.ts'
import type { Parsed } from './parse.ts'

/** `why` continues the sentence that begins with the option's name. */
export function refuse(parsed: Parsed, options: readonly string[], why: string, hint?: string): void {
  const given = options.find((option) => parsed.has(option))
  if (given !== undefined) throw invalid(`option.${given}`, `--${given} ${why}`, hint)
}

/** Options of agents that a command in a repository also has. */
const OF_REPOSITORIES = ['clean', 'with-executables', 'take']
const OF_AGENTS = Object.keys(AGENT_OPTIONS).filter((option) => !OF_REPOSITORIES.includes(option))

/** Options of sandboxes that do not apply to the sandbox of an agent's run. */
const NOT_OF_AGENTS = [
  ...['name', 'label', 'timeout', 'idle', 'when-over', 'to-disk-after', 'no-auto-resume', 'keep'],
  ...['from', 'no-project', 'learn', 'workdir', 'no-terminal'],
]

export function checkAgentRun(parsed: Parsed): void {
  refuse(
    parsed,
    NOT_OF_AGENTS,
    'does not apply to an agent’s run',
    'use --time for the run and --keep-for for its sandbox; see `agentpod run --help`',
  )
  checkCombination(parsed)
}

export function checkCommandRun(parsed: Parsed): void {
  refuse(
    parsed,
    OF_AGENTS,
    'is an option for agents, and this is a command',
    'agentpod run claude "fix the failing test"',
  )
  checkCombination(parsed)
}

/** Refuses repository options for a command that runs on no copy of a repository. */
export function checkNoRepository(parsed: Parsed): void {
  const why = parsed.has('no-project')
    ? 'has no effect with --no-project'
    : parsed.has('from')
      ? 'has no effect with --from, which starts from a snapshot'
      : 'needs a git repository, and this directory is not in one'
  refuse(parsed, OF_REPOSITORIES, why)
}

/** Options that contradict one another, in every command that makes a sandbox. */
export function checkCombination(parsed: Parsed): void {
  for (const option of ['bare', 'from', 'no-project'])
    if (parsed.has(option))
      refuse(
        parsed,
        ['profile', 'service', 'compose-profile'],
        `has no effect with --${option}, which ignores the project’s environment`,
        'leave one of them out',
      )
  checkNetwork(parsed)
}

export function checkNetwork(parsed: Parsed): void {
  if (parsed.value('net') !== 'off') return
  refuse(
    parsed,
    ['allow', 'allow-private', 'preset', 'secret', 'intercept-all'],
    'has no effect with --net off',
    'leave out --net off: then only the named hosts are allowed',
  )
}
