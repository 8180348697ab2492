/** Options that would have no effect, refused before anything is made. */
import { invalid } from '../../core/error.ts'
import { AGENT_OPTIONS } from './agent-options.ts'
import type { Parsed } from './parse.ts'

/** `why` goes on from the option's name. */
export function refuse(parsed: Parsed, options: readonly string[], why: string, hint?: string): void {
  const given = options.find((option) => parsed.has(option))
  if (given !== undefined) throw invalid(`option.${given}`, `--${given} ${why}`, hint)
}

/** Of the options of agents those that a command in a repository has too: what it begins with, and what comes back. */
const OF_REPOSITORIES = ['clean', 'with-executables', 'take']
const OF_AGENTS = Object.keys(AGENT_OPTIONS).filter((option) => !OF_REPOSITORIES.includes(option))

/** Of the options of sandboxes those that the sandbox of an agent's run has no use for. */
const NOT_OF_AGENTS = [
  ...['name', 'label', 'timeout', 'idle', 'when-over', 'no-auto-resume', 'keep'],
  ...['from', 'no-project', 'learn', 'workdir', 'no-terminal'],
]

export function checkAgentRun(parsed: Parsed): void {
  refuse(
    parsed,
    NOT_OF_AGENTS,
    'has no effect on an agent’s run, which has a sandbox of its own kind',
    '--time bounds the run, --keep-for its sandbox; `agentpod run --help` says what else there is',
  )
  checkCombination(parsed)
}

export function checkCommandRun(parsed: Parsed): void {
  refuse(
    parsed,
    OF_AGENTS,
    'is for agents, and this is a command',
    'agentpod run claude "fix the failing test"',
  )
  checkCombination(parsed)
}

/** For a command that is not run on the copy of a repository. */
export function checkNoRepository(parsed: Parsed): void {
  const why = parsed.has('no-project')
    ? 'has no effect with --no-project'
    : parsed.has('from')
      ? 'has no effect with --from, which begins with the files of a snapshot'
      : 'needs a git repository, and this directory is in none'
  refuse(parsed, OF_REPOSITORIES, why)
}

/** Options that contradict one another, in every command that makes a sandbox. */
export function checkCombination(parsed: Parsed): void {
  for (const option of ['bare', 'from', 'no-project'])
    if (parsed.has(option))
      refuse(
        parsed,
        ['profile'],
        `has no effect with --${option}, which takes no environment from the project`,
      )
  checkNetwork(parsed)
}

export function checkNetwork(parsed: Parsed): void {
  if (parsed.value('net') !== 'off') return
  refuse(
    parsed,
    ['allow', 'allow-private', 'preset', 'secret', 'intercept-all'],
    'has no effect with --net off: nothing leaves the sandbox then',
    'leave --net out to allow what is named and nothing else',
  )
}
