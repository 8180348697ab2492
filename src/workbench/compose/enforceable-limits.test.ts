import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readCompose } from '../../config/compose/compose-project.ts'
import type { Workbench } from '../workbench.ts'
import { enforceableLimits } from './enforceable-limits.ts'

const text = 'services:\n  web: { image: a }\n  db: { image: a, mem_limit: 64m, cpus: 1, pids_limit: 5 }\n'
const compose = readCompose({
  files: ['compose.yaml'],
  read: (file) => (file === 'compose.yaml' ? text : undefined),
})

/** A server with two providers, of which only `strong` enforces limits. */
function bench(notes: string[]): Workbench {
  const providers = [
    { name: 'weak', isDefault: true, capabilities: { limits: 'none' } },
    { name: 'strong', isDefault: false, capabilities: { limits: 'enforced' } },
  ]
  return {
    client: () => Promise.resolve({ providers: () => Promise.resolve(providers) }),
    person: { notice: (one: { text: string }) => void notes.push(one.text) },
  } as unknown as Workbench
}

test('CMP-15 limits of a compose file are left out with a note where they do not hold', async () => {
  const notes: string[] = []
  const { services } = await enforceableLimits(bench(notes), compose, undefined)
  const db = services.find(({ name }) => name === 'db')
  assert.deepEqual([db?.memoryMib, db?.cpus, db?.pids], [undefined, undefined, undefined])
  assert.match(
    notes.join('\n'),
    /^compose\.yaml:3: limits on memory, .* of db are left out: .*agentpod doctor/,
  )
  const kept: string[] = []
  assert.equal(await enforceableLimits(bench(kept), compose, 'strong'), compose)
  assert.deepEqual(kept, [])
})
