/** What the options of a run of agents mean. */
import type { Agent } from '../../agents/agent.ts'
import { agentNamed } from '../../agents/agents.ts'
import type { McpServer } from '../../agents/assignment.ts'
import { invalid } from '../../core/error.ts'
import { prefixOf } from '../../sync/git/branch-name.ts'
import { type GateChoice, gateChoice } from './gate-choice.ts'
import { readMcpServers } from './mcp-file.ts'
import type { Parsed } from './parse.ts'
import { parseDuration, parseNumber } from './values.ts'

/** One run to be started. */
export interface ChosenAgent {
  readonly agent: Agent
  /** Among those of the same agent, from 1 on. */
  readonly number: number
}

export interface AgentValues {
  readonly model: string | undefined
  readonly timeMs: number | undefined
  readonly answerMs: number | undefined
  readonly maxCostUsd: number | undefined
  readonly mcpServers: readonly McpServer[]
  readonly isClean: boolean
  /** Checked. */
  readonly branch: string | undefined
  readonly isDetached: boolean
  readonly keepMs: number | undefined
  readonly baseUrl: string | undefined
  /** Of the agent `custom`; empty where nobody gave one. */
  readonly command: readonly string[]
  readonly isAcp: boolean
  readonly withGated: GateChoice
}

/** What may be said of a run that is there already, too. */
export function limitValues(parsed: Parsed): Pick<AgentValues, 'timeMs' | 'maxCostUsd'> {
  return { timeMs: timeOf(parsed, 'time', 1000), maxCostUsd: maxCostOf(parsed.value('max-cost')) }
}

export function agentValues(parsed: Parsed): AgentValues {
  const command = parsed.value('agent-command')
  const branch = parsed.value('branch')
  if (branch !== undefined) prefixOf(branch)
  return {
    model: parsed.value('model'),
    ...limitValues(parsed),
    answerMs: timeOf(parsed, 'answer-time', 0),
    mcpServers: readMcpServers(parsed.values('mcp')),
    isClean: parsed.has('clean'),
    branch,
    isDetached: parsed.has('detach'),
    keepMs: timeOf(parsed, 'keep-for', 0),
    baseUrl: baseUrlOf(parsed.value('base-url')),
    command: command === undefined ? [] : ['/bin/sh', '-c', command],
    isAcp: parsed.has('acp'),
    withGated: gateChoice(parsed),
  }
}

const MOST_OF_ONE = 16
const MOST_RUNS = 32

/** `claude`, `codex:2`; one agent named twice is two runs of it. */
export function chosenAgents(words: readonly string[]): ChosenAgent[] {
  const counts = new Map<Agent, number>()
  for (const word of words) {
    const cut = word.lastIndexOf(':')
    const agent = agentNamed(cut < 0 ? word : word.slice(0, cut))
    counts.set(agent, (counts.get(agent) ?? 0) + (cut < 0 ? 1 : countOf(word, word.slice(cut + 1))))
  }
  const chosen = [...counts].flatMap(([agent, count]) =>
    Array.from({ length: count }, (_, index) => ({ agent, number: index + 1 })),
  )
  if (chosen.length <= MOST_RUNS) return chosen
  throw invalid('option.agent', `${chosen.length} runs at once are more than ${MOST_RUNS}`)
}

function countOf(word: string, text: string): number {
  if (/^[1-9]\d?$/.test(text) && Number(text) <= MOST_OF_ONE) return Number(text)
  throw invalid(
    'option.agent',
    `--agent is a name, or a name and a number from 1 to ${MOST_OF_ONE} like codex:2, not ${JSON.stringify(word)}`,
  )
}

function timeOf(parsed: Parsed, option: string, leastMs: number): number | undefined {
  const text = parsed.value(option)
  if (text === undefined) return undefined
  const ms = parseDuration(text, option)
  if (ms >= leastMs) return ms
  throw invalid(`option.${option}`, `--${option} is a second or more, not ${JSON.stringify(text)}`)
}

function maxCostOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const cost = parseNumber(text.replace(/^\$/, ''), 'max-cost')
  if (cost > 0) return cost
  throw invalid(
    'option.max-cost',
    `--max-cost is an amount of dollars like 2.50, not ${JSON.stringify(text)}`,
  )
}

function baseUrlOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const url = URL.parse(text)
  if (url && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return text
  throw invalid(
    'option.base-url',
    '--base-url is an address without a key in it, like https://gateway.example.com/v1',
  )
}
