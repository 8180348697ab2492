/** The agents that a request names, as single runs. */
import type { Agent } from '../../agents/agent.ts'
import { AGENTS, agentNamed, DEFAULT_AGENT, overAcp } from '../../agents/agents.ts'
import { invalid } from '../../core/error.ts'

export interface ChosenAgent {
  readonly agent: Agent
  /** Counts the runs of the same agent, from 1. */
  readonly number: number
}

const MOST_OF_ONE = 16
const MOST_RUNS = 32

export interface ChoiceOptions {
  /** The agent that the word `agent` means. */
  readonly defaultAgent?: string | undefined
  /** The command speaks ACP. */
  readonly isAcp?: boolean | undefined
}

/** `claude`, `codex:2`. Naming an agent twice gives two runs of it. */
export function chooseAgents(words: readonly string[], o: ChoiceOptions = {}): ChosenAgent[] {
  const counts = new Map<Agent, number>()
  for (const word of words.map((one) => (one === DEFAULT_AGENT ? requireDefault(o) : one))) {
    const cut = word.lastIndexOf(':')
    const named = agentNamed(cut < 0 ? word : word.slice(0, cut))
    const agent = o.isAcp ? overAcp(named) : named
    counts.set(agent, (counts.get(agent) ?? 0) + (cut < 0 ? 1 : countOf(word, word.slice(cut + 1))))
  }
  const chosen = [...counts].flatMap(([agent, count]) =>
    Array.from({ length: count }, (_, index) => ({ agent, number: index + 1 })),
  )
  if (chosen.length <= MOST_RUNS) return chosen
  throw invalid('option.agent', `${chosen.length} runs at once are too many: the limit is ${MOST_RUNS}`)
}

function requireDefault({ defaultAgent }: ChoiceOptions): string {
  if (defaultAgent !== undefined) return defaultAgent
  throw invalid(
    'agent.none',
    'no default agent is set',
    'name one: `agentpod run claude "..."`; or set it in agentpod.toml: [agents] default = "claude"',
  )
}

function countOf(word: string, text: string): number {
  if (/^[1-9]\d?$/.test(text) && Number(text) <= MOST_OF_ONE) return Number(text)
  throw invalid(
    'option.agent',
    `--agent is a name, or a name and a number from 1 to ${MOST_OF_ONE} like codex:2, not ${JSON.stringify(word)}`,
  )
}

/** A command is required by the agents that take one, and refused with all others. */
export function checkCommand(chosen: readonly ChosenAgent[], command: readonly string[]): void {
  const taking = chosen.find(({ agent }) => agent.takesCommand)
  if (taking && command.length === 0)
    throw invalid(
      'agent.command',
      `the agent ${taking.agent.name} needs a command to run`,
      `agentpod run ${taking.agent.name} --agent-command './my-agent "$0"' "fix the failing test"`,
    )
  if (taking || command.length === 0) return
  const names = AGENTS.filter(({ takesCommand }) => takesCommand).map(({ name }) => name)
  throw invalid(
    'agent.command',
    `--agent-command works only with the agent ${names.join(' or ')}`,
    `agentpod run ${names[0]} ...`,
  )
}
