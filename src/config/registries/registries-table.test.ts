import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { readRegistries } from '../config-files.ts'

describe('[registries] of config.toml', () => {
  let home = ''
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'agentpod-registries-'))
  })
  afterEach(() => rmSync(home, { recursive: true }))
  const read = (text: string): ReturnType<typeof readRegistries> => {
    writeFileSync(join(home, 'config.toml'), text)
    return readRegistries(home)
  }

  test('is empty without a file', () => assert.deepEqual(readRegistries(home), {}))

  test('has the content of its authority, from a path in the state directory', () => {
    const pem = '-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n'
    writeFileSync(join(home, 'ca.pem'), pem)
    assert.deepEqual(
      read(
        '[registries."r.example.com"]\nca = "ca.pem"\nmirrors = ["m.example.com:5000"]\n[registries."localhost:5000"]\ninsecure = true\n',
      ),
      {
        'r.example.com': { ca: pem, mirrors: ['m.example.com:5000'] },
        'localhost:5000': { insecure: true },
      },
    )
  })

  for (const [what, text, says] of [
    ['an unknown key', '[registries."r.example.com"]\ninsecur = true\n', /unknown key/],
    ['an address in place of a host', '[registries."https://r.example.com"]\n', /registr/],
    ['a name that is a repository', '[registries.debian]\ninsecure = true\n', /registr/],
    ['an authority that is missing', '[registries."r.example.com"]\nca = "none.pem"\n', /cannot be read/],
    [
      'an authority that is no PEM file',
      '[registries."r.example.com"]\nca = "config.toml"\n',
      /not a PEM file/,
    ],
  ] as const)
    test(`refuses ${what}`, () => assert.throws(() => read(text), says))
})
