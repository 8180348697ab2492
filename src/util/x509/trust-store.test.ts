import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemRandom } from '../random.ts'
import { makeSandboxAuthority } from './certificate.ts'
import { TRUST_STORE_PASSWORD, trustStore } from './trust-store.ts'

const hasKeytool = spawnSync('keytool', ['-help']).error === undefined

test('NET-16 Java finds every certificate in a trust store, with the right digest', {
  skip: hasKeytool ? false : 'keytool is not here',
}, () => {
  const made = ['one', 'two'].map((name) =>
    makeSandboxAuthority({ now: Date.UTC(2026, 0, 1), random: systemRandom }, name),
  )
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-store-'))
  try {
    const file = join(directory, 'store.jks')
    writeFileSync(
      file,
      trustStore(made.map(({ cert }) => `words between\n${cert}`).join(''), Date.UTC(2026, 0, 2)),
    )
    const { stdout, status } = spawnSync(
      'keytool',
      ['-list', '-v', '-keystore', file, '-storepass', TRUST_STORE_PASSWORD],
      { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } },
    )
    assert.equal(status, 0, stdout)
    for (const { cert } of made) assert.ok(stdout.includes(new X509Certificate(cert).fingerprint256))
    const wrong = spawnSync('keytool', ['-list', '-keystore', file, '-storepass', 'not it'], {
      encoding: 'utf8',
    })
    assert.notEqual(wrong.status, 0)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
