import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Sandbox } from '../../core/sandbox.ts'
import { SandboxListJson } from './sandbox-list.ts'
import { sandboxView } from './sandbox-view.ts'

const sandbox = (id: string, deadlineAt: number): Sandbox =>
  ({
    id,
    state: 'running',
    provider: 'fake',
    isolation: 'container',
    labels: { team: 'ü"\n' },
    spec: {
      environment: { base: 'host', user: 'user', workdir: '/', sudo: false },
      resources: {},
      lifetime: { idleMs: 0 },
      network: { mode: 'closed', secrets: [] },
    },
    createdAt: 0,
    deadlineAt,
  }) as unknown as Sandbox

test('a list of sandboxes has the view of each, also after one has changed', () => {
  const list = new SandboxListJson()
  const [one, other] = [sandbox('one', 1000), sandbox('other', 2000)]
  const expected = (...all: Sandbox[]): unknown => JSON.parse(JSON.stringify(all.map(sandboxView)))
  assert.deepEqual(JSON.parse(list.of([]).toString()), [])
  for (let times = 0; times < 2; times++) {
    assert.deepEqual(JSON.parse(list.of([one, other]).toString()), expected(one, other))
  }
  const later = { ...one, deadlineAt: 9000 }
  assert.deepEqual(JSON.parse(list.of([later, other]).toString()), expected(later, other))
})
