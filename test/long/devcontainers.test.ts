// The official command reads every configuration beside ours. Differences are those of the documentation.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Comparison } from '../compat/devcontainers/compare.ts'
import { CONFIGURATIONS } from '../compat/devcontainers/configurations.ts'
import { DIFFERENCES, expected, STRICTER } from '../compat/devcontainers/differences.ts'
import { installOfficial } from '../compat/devcontainers/official-command.ts'
import { ROOT } from '../support/world.ts'

describe('devcontainers beside the official command', () => {
  let comparison: Comparison
  before(
    async () => {
      comparison = await Comparison.start(await installOfficial())
    },
    { timeout: 180_000 },
  )
  after(async () => comparison?.[Symbol.asyncDispose]())

  for (const one of CONFIGURATIONS)
    test(`DC-6 both read: ${one.name}`, async () => {
      const { ours, official } = await comparison.compare(one)
      assert.deepEqual(ours, expected(one.name, official))
      if (Object.hasOwn(DIFFERENCES, one.name)) assert.notDeepEqual(ours, official)
    })

  for (const one of STRICTER)
    test(`DC-3 only the official command reads: ${one.name}`, async () => {
      const { official, refusal } = await comparison.refused(one)
      assert.ok(official['configuration'])
      assert.equal(refusal, one.reason)
    })

  test('DC-7 the lockfile has the text that the official command writes', async () => {
    const names = ['epsilon', 'gamma:1', 'beta']
    const { ours, official } = await comparison.locks(names)
    assert.equal(ours, official)
    assert.equal(Object.keys((JSON.parse(ours) as { features: object }).features).length, 5)
  })

  test('DC-6 there are at least sixty configurations, each with its own name', () => {
    const names = new Set(CONFIGURATIONS.map(({ name }) => name))
    assert.equal(names.size, CONFIGURATIONS.length)
    assert.ok(names.size >= 60, String(names.size))
    for (const name of Object.keys(DIFFERENCES)) assert.ok(names.has(name), name)
    const page = readFileSync(join(ROOT, 'docs', 'compat', 'devcontainers.md'), 'utf8')
    assert.match(page, new RegExp(`reads ${names.size} configurations`))
  })
})
