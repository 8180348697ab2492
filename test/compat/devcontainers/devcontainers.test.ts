// The official command reads some configurations beside ours; test/long/devcontainers.test.ts has them all.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Comparison } from './compare.ts'
import { CONFIGURATIONS } from './configurations.ts'
import { expected } from './differences.ts'
import { installOfficial } from './official-command.ts'

describe('devcontainers beside the official command', () => {
  let comparison: Comparison
  before(
    async () => {
      comparison = await Comparison.start(await installOfficial())
    },
    { timeout: 180_000 },
  )
  after(async () => comparison?.[Symbol.asyncDispose]())

  for (const one of CONFIGURATIONS.filter(({ isQuick }) => isQuick))
    test(`DC-6 both read: ${one.name}`, async () => {
      const { ours, official } = await comparison.compare(one)
      assert.deepEqual(ours, expected(one.name, official))
    })

  test('DC-6 both replace the id and the variables of a container that runs', async () => {
    const remoteEnv = {
      A: '${devcontainerId}',
      B: '${containerEnv:PATH}:/x',
      C: '${containerEnv:NONE}',
      D: '${containerEnv:NONE:d:e}',
      E: '${containerWorkspaceFolder} ${unknown}',
    }
    const { ours, official } = await comparison.running(
      { name: 'running', json: { image: 'made:1', remoteEnv } },
      { PATH: '/usr/bin', OTHER: 'x' },
    )
    assert.deepEqual(ours, official)
    assert.match(JSON.stringify(ours), /"A":"[0-9a-v]{52}","B":"\/usr\/bin:\/x","C":"","D":"d"/)
  })
})
