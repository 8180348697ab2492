import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from './error.ts'
import { askedLimits, DEFAULT_RESOURCES, type Resources, resolveResources } from './resources.ts'

test('an empty resource request gives the defaults', () => {
  assert.deepEqual(resolveResources({}), DEFAULT_RESOURCES)
  assert.deepEqual(resolveResources({ memoryMib: undefined }), DEFAULT_RESOURCES)
})

test('a requested resource replaces its default and leaves the others', () => {
  assert.deepEqual(resolveResources({ cpus: 0.5, pids: 8 }), { ...DEFAULT_RESOURCES, cpus: 0.5, pids: 8 })
})

const BORDERS: readonly [key: keyof Resources, lowest: number, highest: number][] = [
  ['memoryMib', 32, 4 * 1024 * 1024],
  ['swapMib', 0, 4 * 1024 * 1024],
  ['cpus', 0.05, 1024],
  ['pids', 8, 1_000_000],
  ['files', 64, 1_048_576],
  ['tmpMib', 1, 1024 * 1024],
  ['shmMib', 1, 1024 * 1024],
]

for (const [key, lowest, highest] of BORDERS) {
  test(`resource ${key} may be ${lowest} to ${highest} and nothing else`, () => {
    for (const value of [lowest, highest]) assert.equal(resolveResources({ [key]: value })[key], value)
    const wrong = [lowest - 0.01, highest + 1, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e308]
    if (key !== 'cpus') wrong.push(lowest + 0.5)
    for (const value of wrong) {
      assert.throws(
        () => resolveResources({ [key]: value }),
        (error) => isAgentPodError(error, 'invalid_argument') && error.reason === `resources.${key}`,
        `${key} took ${value}`,
      )
    }
  })
}

test('a resource of another type is refused', () => {
  for (const value of ['64', true, [64], null]) {
    assert.throws(
      () => resolveResources({ pids: value as unknown as number }),
      (error) => isAgentPodError(error, 'invalid_argument'),
      `pids took ${JSON.stringify(value)}`,
    )
  }
})

test('requested limits are those with a value', () => {
  assert.deepEqual(askedLimits({}), [])
  assert.deepEqual(askedLimits({ memoryMib: 64, cpus: undefined, files: 100, tmpMib: 5 }), [
    'memory',
    'files',
  ])
  assert.deepEqual(askedLimits({ swapMib: 0 }), ['swap'])
})
