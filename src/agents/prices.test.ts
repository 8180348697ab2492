import assert from 'node:assert/strict'
import { test } from 'node:test'
import { costOf } from './prices.ts'

const MILLION = { input: 1_000_000, cached: 1_000_000, output: 1_000_000 }

test('token prices are found by every name of a model', () => {
  for (const [model, cost] of [
    ['claude-sonnet-4-5', 18.3],
    ['claude-sonnet-4-5-20250929', 18.3],
    ['anthropic/claude-sonnet-4.5', 18.3],
    ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 18.3],
    ['claude-opus-5-5', 24.2],
    ['claude-opus-4-1', 91.5],
    ['claude-haiku-4-5', 6.1],
    ['gpt-5', 11.375],
    ['gpt-5-mini', 2.275],
    ['gpt-5.5', 35.5],
    ['openai/gpt-5.5', 35.5],
    ['gpt-6.1-sol', 12.2],
    ['models/gemini-2.5-pro', 11.375],
    ['gemini-2.5-flash-lite', 0.51],
    ['qwen3-coder-plus', 4.03],
  ] as const)
    assert.equal(costOf(model, MILLION)?.toFixed(4), cost.toFixed(4), model)
  assert.equal(costOf('claude-sonnet-4-5', { input: 0, cached: 0, output: 0 }), 0)
})

test('an unknown model has no price', () => {
  for (const model of ['', 'my-model', 'x'.repeat(10_000), '__proto__', 'not-gpt-5'])
    assert.equal(costOf(model, MILLION), undefined)
})
