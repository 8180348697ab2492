/** The options of a run of agents as values. */
import { parsePermission } from '../../agents/permissions/permissions.ts'
import { invalid } from '../../core/error.ts'
import { prefixOf } from '../../sync/git/branch/branch-name.ts'
import type { AgentRequest } from '../../workbench/run/agent-request.ts'
import { readMcpServers } from './mcp-file.ts'
import { sandboxRequest, variableOptions } from './options.ts'
import type { Parsed } from './parse.ts'
import { parseDuration, parseNumber } from './values.ts'

/** The limits of a run, which `send` can change too. */
export function limitOptions(parsed: Parsed): Pick<AgentRequest, 'timeMs' | 'maxCostUsd'> {
  return { timeMs: timeOf(parsed, 'time', 1000), maxCostUsd: maxCostOf(parsed.value('max-cost')) }
}

/** What the options of `run` ask of agents. */
export function agentRequest(
  parsed: Parsed,
  { agents, prompt, env }: Pick<AgentRequest, 'agents' | 'prompt'> & { readonly env: Variables },
): AgentRequest {
  const command = parsed.value('agent-command')
  const branch = parsed.value('branch')
  if (branch !== undefined) prefixOf(branch)
  return {
    ...sandboxRequest(parsed, variableOptions(parsed, env)),
    agents,
    prompt,
    model: parsed.value('model'),
    ...limitOptions(parsed),
    answerMs: timeOf(parsed, 'answer-time', 0),
    mcpServers: readMcpServers(parsed.values('mcp')),
    isClean: parsed.has('clean'),
    branch,
    keepMs: timeOf(parsed, 'keep-for', 0),
    baseUrl: baseUrlOf(parsed.value('base-url')),
    command: command === undefined ? [] : ['/bin/sh', '-c', command],
    isAcp: parsed.has('acp'),
    isAsking: parsed.has('ask'),
    permissions: parsed.values('permission').map(parsePermission),
  }
}

type Variables = Readonly<Record<string, string | undefined>>

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
