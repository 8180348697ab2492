/** What an agent says that it used. The Agent Client Protocol leaves room for several ways to say so. */
import type { Tokens } from '../core/run.ts'
import { amountAt, listAt, objectAt, textAt } from './json.ts'

/** Plain JSON, since it is part of the driver's state. */
export interface Used {
  readonly costUsd?: number | undefined
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
}

/**
 * `whole`: input means all of it, what came from a cache included. `each`: every message has its own count, and they are added up. `last`: it only
 * tells of the last request, which is no count of a turn.
 */
export interface Counting {
  readonly input?: 'whole' | undefined
  readonly per?: 'each' | 'last' | undefined
}

/** At the end of a turn: `usage`, or counts in `_meta.quota`. */
export function promptTokens(before: Used, result: unknown, counting: Counting = {}): Used {
  if (counting.per !== undefined) return before
  const own = tokensIn(objectAt(result, 'usage'), counting) ?? quotaTokens(result)
  return own ? { ...before, tokens: { ...own, costUsd: before.costUsd, model: modelOf(result) } } : before
}

function tokensIn(usage: unknown, { input: how }: Counting): Tokens | undefined {
  const input = amountAt(usage, 'inputTokens')
  const output = amountAt(usage, 'outputTokens')
  if (input === undefined && output === undefined) return undefined
  const cached = amountAt(usage, 'cachedReadTokens') ?? 0
  const written = amountAt(usage, 'cachedWriteTokens') ?? 0
  const fresh = how === 'whole' ? Math.max(0, (input ?? 0) - cached) : (input ?? 0) + written
  return { input: fresh, cached, output: output ?? 0 }
}

function quotaTokens(result: unknown): Tokens | undefined {
  const count = objectAt(result, '_meta', 'quota', 'token_count')
  const input = amountAt(count, 'input_tokens')
  const output = amountAt(count, 'output_tokens')
  return input === undefined && output === undefined
    ? undefined
    : { input: input ?? 0, cached: 0, output: output ?? 0 }
}

function modelOf(result: unknown): string | undefined {
  const models = listAt(result, '_meta', 'quota', 'model_usage')
  const name = models.length === 1 ? textAt(models[0], 'model') : undefined
  return name !== undefined && name.length <= 200 ? name : undefined
}

/** With a message, of agents that count each. */
export function chunkTokens(before: Used, update: unknown, counting: Counting = {}): Used {
  const more = counting.per === 'each' ? tokensIn(objectAt(update, '_meta', 'usage'), counting) : undefined
  if (!more) return before
  const { input, cached, output } = before.tokens ?? { input: 0, cached: 0, output: 0 }
  const sum = { input: input + more.input, cached: cached + more.cached, output: output + more.output }
  return { ...before, tokens: { ...sum, costUsd: before.costUsd, model: undefined } }
}

/** While a turn is under way: how full the context is, which nobody pays for, and sometimes what the turn has cost. */
export function updateTokens(before: Used, update: unknown): Used {
  const isUsd = textAt(update, 'cost', 'currency') === 'USD'
  const costUsd = isUsd ? amountAt(update, 'cost', 'amount') : undefined
  return costUsd === undefined ? before : { costUsd, tokens: before.tokens && { ...before.tokens, costUsd } }
}
