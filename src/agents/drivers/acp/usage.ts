/** Token usage that an agent reports. The Agent Client Protocol allows several formats. */

import type { Tokens } from '../../../core/run.ts'
import { listAt, objectAt, stringAt } from '../../../util/untrusted-json.ts'
import { amountAt } from '../output/json.ts'

/** Plain JSON, because it is part of the driver's state. */
export interface UsedTokens {
  readonly costUsd?: number | undefined
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
}

/**
 * `whole`: input includes cached tokens. `each`: every message has its own count, and they are added. `last`:
 * it counts only the last request, which is not the count of a turn.
 */
export interface TokenCounting {
  readonly input?: 'whole' | undefined
  readonly per?: 'each' | 'last' | undefined
}

/** At the end of a turn: `usage`, or counts in `_meta.quota`. */
export function promptTokens(before: UsedTokens, result: unknown, counting: TokenCounting = {}): UsedTokens {
  if (counting.per !== undefined) return before
  const own = tokensIn(objectAt(result, 'usage'), counting) ?? quotaTokens(result)
  return own ? { ...before, tokens: { ...own, costUsd: before.costUsd, model: modelOf(result) } } : before
}

function tokensIn(usage: unknown, { input: how }: TokenCounting): Tokens | undefined {
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
  const name = models.length === 1 ? stringAt(models[0], 'model') : undefined
  return name !== undefined && name.length <= 200 ? name : undefined
}

/** Counts with a message, for agents that count each message. */
export function chunkTokens(before: UsedTokens, update: unknown, counting: TokenCounting = {}): UsedTokens {
  const more = counting.per === 'each' ? tokensIn(objectAt(update, '_meta', 'usage'), counting) : undefined
  if (!more) return before
  const { input, cached, output } = before.tokens ?? { input: 0, cached: 0, output: 0 }
  const sum = { input: input + more.input, cached: cached + more.cached, output: output + more.output }
  return { ...before, tokens: { ...sum, costUsd: before.costUsd, model: undefined } }
}

/** During a turn: the size of the context, which is not a cost, and sometimes the cost of the turn. */
export function updateTokens(before: UsedTokens, update: unknown): UsedTokens {
  const isUsd = stringAt(update, 'cost', 'currency') === 'USD'
  const costUsd = isUsd ? amountAt(update, 'cost', 'amount') : undefined
  return costUsd === undefined ? before : { costUsd, tokens: before.tokens && { ...before.tokens, costUsd } }
}
