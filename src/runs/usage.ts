/**
 * The model usage of a run, added up. Figures seen on the wire count; the agent's own are used if there are
 * none.
 */
import { costOf } from '../agents/prices.ts'
import type { ModelUsage } from '../core/network.ts'
import { NO_USAGE, type RunUsage, type Tokens } from '../core/run.ts'

export type ModelUse = ModelUsage

const MOST_MODELS = 32

export function addUse(usage: RunUsage, use: ModelUse): RunUsage {
  const before = usage.source === 'wire' ? usage : NO_USAGE
  const known = Object.hasOwn(before.models, use.model)
  const name = known || Object.keys(before.models).length < MOST_MODELS ? use.model : 'others'
  const earlier = Object.hasOwn(before.models, name) ? before.models[name] : undefined
  const cost = costOf(use.model, use)
  const models = {
    ...before.models,
    [name]: { ...sum(earlier ?? NO_USAGE, use), costUsd: earlier ? plus(earlier.costUsd, cost) : cost },
  }
  return {
    ...sum(before, use),
    requests: before.requests + 1,
    costUsd: before.requests === 0 ? cost : plus(before.costUsd, cost),
    source: 'wire',
    models,
  }
}

/** The total as the agent itself reports it. */
export function claimUse(
  usage: RunUsage,
  claim: Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined },
): RunUsage {
  if (usage.source === 'wire') return usage
  const { input, cached, output, model } = claim
  const tokens = { input, cached, output }
  const costUsd = claim.costUsd ?? (model === undefined ? undefined : costOf(model, tokens))
  return {
    ...tokens,
    requests: 0,
    costUsd,
    source: 'agent',
    models: model === undefined ? {} : { [model]: { ...tokens, costUsd } },
  }
}

function sum(a: Tokens, b: Tokens): Tokens {
  return { input: a.input + b.input, cached: a.cached + b.cached, output: a.output + b.output }
}

/** If the price of a part is unknown, so is the total. */
function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b
}
