/**
 * Prices of models in US dollars per million tokens, as of November 2026. Estimates: list prices without
 * discounts, tiers for long prompts, or the surcharge for cache writes. An unlisted newer version counts as
 * the last listed one of its family.
 */
import type { Tokens } from '../core/run.ts'

interface Price {
  readonly input: number
  readonly cached: number
  readonly output: number
}

export const PRICES_AS_OF = '2026-11'

const price = (input: number, cached: number, output: number): Price => ({ input, cached, output })

/** The first match decides. Names are in lower case and without the provider. */
const PRICES: readonly (readonly [RegExp, Price])[] = [
  [/^claude-fable-5-\d/, price(10, 0.25, 50)],
  [/^claude-fable/, price(10, 1, 50)],
  [/^claude-opus-5-\d/, price(4, 0.2, 20)],
  [/^claude-opus-(?:4-[5-9]|5)/, price(5, 0.5, 25)],
  [/^claude-opus-4|^claude-3-opus/, price(15, 1.5, 75)],
  [/^claude-sonnet-[5-9]/, price(2, 0.2, 10)],
  [/^claude-(?:sonnet|3-[57]-sonnet)/, price(3, 0.3, 15)],
  [/^claude-haiku-[5-9]/, price(0.1, 0.01, 0.5)],
  [/^claude-haiku-4/, price(1, 0.1, 5)],
  [/^claude-3-5-haiku/, price(0.8, 0.08, 4)],

  [/^gpt-6[\d.]*-astra/, price(10, 1, 50)],
  [/^gpt-6[\d.]*-luna/, price(0.1, 0.01, 0.5)],
  [/^gpt-6/, price(2, 0.2, 10)],
  [/^gpt-5\.6-luna/, price(0.2, 0.02, 1.2)],
  [/^gpt-5\.6-terra/, price(2, 0.2, 12)],
  [/^gpt-5\.6/, price(4, 0.4, 20)],
  [/^gpt-5\.[45]-pro/, price(30, 30, 180)],
  [/^gpt-5\.5/, price(5, 0.5, 30)],
  [/^gpt-5\.4-mini/, price(0.75, 0.075, 4.5)],
  [/^gpt-5\.4-nano/, price(0.2, 0.02, 1.25)],
  [/^gpt-5\.4/, price(2.5, 0.25, 15)],
  [/^gpt-5\.2-pro/, price(21, 21, 168)],
  [/^gpt-5\.[23]/, price(1.75, 0.175, 14)],
  [/^gpt-5(?:\.1)?-(?:codex-)?mini|^codex-mini/, price(0.25, 0.025, 2)],
  [/^gpt-5-nano/, price(0.05, 0.005, 0.4)],
  [/^gpt-5-pro/, price(15, 15, 120)],
  [/^gpt-5/, price(1.25, 0.125, 10)],
  [/^gpt-4\.1-mini/, price(0.4, 0.1, 1.6)],
  [/^gpt-4\.1-nano/, price(0.1, 0.025, 0.4)],
  [/^gpt-4\.1/, price(2, 0.5, 8)],
  [/^gpt-4o-mini/, price(0.15, 0.075, 0.6)],
  [/^gpt-4o/, price(2.5, 1.25, 10)],
  [/^o3-pro/, price(20, 20, 80)],
  [/^o3-mini/, price(1.1, 0.55, 4.4)],
  [/^o4-mini/, price(1.1, 0.275, 4.4)],
  [/^o3/, price(2, 0.5, 8)],

  [/^gemini-2\.5-flash-lite/, price(0.1, 0.01, 0.4)],
  [/^gemini-2\.5-flash/, price(0.3, 0.03, 2.5)],
  [/^gemini-2\.5-pro/, price(1.25, 0.125, 10)],
  [/^gemini-3\.[0-4]-flash-lite/, price(0.25, 0.025, 1.5)],
  [/^gemini-3\.[5-9]-flash-lite/, price(0.3, 0.03, 2.5)],
  [/^gemini-3\.[6-9]-flash/, price(0.75, 0.075, 3.75)],
  [/^gemini-3\.5-flash/, price(1.5, 0.15, 9)],
  [/^gemini-3-flash/, price(0.5, 0.05, 3)],
  [/^gemini-3[\d.]*-pro/, price(2, 0.2, 12)],

  [/^qwen3-coder-plus/, price(0.65, 0.13, 3.25)],
  [/^qwen3-coder-flash/, price(0.195, 0.039, 0.975)],
  [/^qwen3-coder/, price(0.3, 0.1, 1)],
  [/^qwen3\.8-max/, price(2, 0.25, 6)],
  [/^qwen3\.8-flash/, price(0.15, 0.016, 0.47)],
  [/^qwen3\.7-max/, price(1.475, 0.295, 4.425)],
  [/^qwen3\.7-plus/, price(0.32, 0.064, 1.28)],
  [/^qwen3-max/, price(0.78, 0.156, 3.9)],

  [/^deepseek-v4-pro/, price(1.32, 0.044, 3.96)],
  [/^deepseek-flash/, price(0.3, 0.006, 1.2)],
  [/^glm-5\.\d-flash/, price(0.15, 0.03, 0.5)],
  [/^glm-5\.\d/, price(1.4, 0.26, 4.4)],
  [/^glm-4\.7/, price(0.6, 0.11, 2.2)],
  [/^kimi-k3/, price(3, 0.3, 15)],
  [/^kimi-k2\.7/, price(0.95, 0.19, 4)],
  [/^kimi-k2/, price(0.95, 0.16, 4)],
  [/^minimax-m[23]/, price(0.3, 0.06, 1.2)],
  [/^grok-4\.[67]/, price(2, 0.5, 6)],
  [/^grok-4\.5/, price(2, 0.3, 6)],
  [/^grok-4\.[34]/, price(1.25, 0.2, 2.5)],
  [/^devstral-(?:small)/, price(0.1, 0.01, 0.3)],
  [/^devstral/, price(0.4, 0.04, 2)],
  [/^codestral/, price(0.3, 0.03, 0.9)],
  [/^mistral-large/, price(0.5, 0.05, 1.5)],
  [/^mistral-medium/, price(1.5, 0.15, 7.5)],
]

const LONGEST_NAME = 200
const MILLION = 1_000_000

/** Undefined if the price is unknown. */
export function costOf(model: string, { input, cached, output }: Tokens): number | undefined {
  const found = priceOf(model)
  return found && (input * found.input + cached * found.cached + output * found.output) / MILLION
}

function priceOf(model: string): Price | undefined {
  if (model.length > LONGEST_NAME) return undefined
  const [last = ''] = model.toLowerCase().split('/').slice(-1)
  const name = last.replace(/^(?:(?:us|eu|apac|global)\.)?(?:anthropic\.)?/, '')
  // Other services write Anthropic's versions with a dot.
  const plain = name.startsWith('claude') ? name.replaceAll('.', '-') : name
  return PRICES.find(([pattern]) => pattern.test(plain))?.[1]
}
