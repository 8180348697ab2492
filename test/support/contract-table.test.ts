import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeClock } from '../../src/testing/fake-clock.ts'
import { FakeProvider } from '../../src/testing/fake-provider.ts'
import { PROVIDER_CONTRACT } from '../../src/testing/provider-contract.ts'
import { LEVELS, providersPage, skipReason } from './contract-table.ts'
import { ROOT } from './world.ts'

const FILE = join(ROOT, 'docs', 'reference', 'providers.md')

test('docs/reference/providers.md is up to date (AGENTPOD_UPDATE_DOCS=1 writes it)', () => {
  const page = providersPage(PROVIDER_CONTRACT)
  if (process.env['AGENTPOD_UPDATE_DOCS'] === '1') writeFileSync(FILE, page)
  assert.ok(readFileSync(FILE, 'utf8') === page, 'run this test with AGENTPOD_UPDATE_DOCS=1')
})

test('PROV-2 the providers page has the capabilities of the fake provider', async () => {
  const { notes, ...levels } = await new FakeProvider({ clock: new FakeClock() }).capabilities({
    timeoutMs: 1000,
  })
  assert.deepEqual(levels, LEVELS.fake)
  assert.deepEqual(notes, ['it is a fake'])
})

test('PROV-2 a skipped contract case names the capability that decides it, and why', () => {
  for (const levels of Object.values(LEVELS)) {
    for (const one of PROVIDER_CONTRACT) {
      const reason = skipReason(one, levels)
      if (reason === undefined) continue
      const [, name = ''] = /^capability (\w+): [^ ].*[^.]$/.exec(reason) ?? []
      assert.ok(name in levels, `${one.name}: ${reason}`)
    }
  }
})

test('no two contract cases have the same name', () => {
  const names = PROVIDER_CONTRACT.map(({ name }) => name)
  assert.deepEqual([...new Set(names)], names)
})
