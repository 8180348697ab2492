import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { describeRule } from '../policy/rule.ts'
import { readProject, readUser } from './config-files.ts'
import { Approvals } from './grants/approvals.ts'
import { combine, describeApprovalRequest } from './grants/combine.ts'
import { type NetworkTable, wishOf } from './network/network-table.ts'
import { suggestRules } from './network/suggest-rules.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-config-'))
after(() => rmSync(scratch, { recursive: true }))

let count = 0
function project(text: string): string {
  const directory = join(scratch, `p${count++}`)
  mkdirSync(directory)
  writeFileSync(join(directory, 'agentpod.toml'), text)
  return directory
}

describe('a project’s file', () => {
  test('a project’s file names the network access it needs', () => {
    const wish = readProject(
      project(`
        [network]
        mode = "allowlist"
        presets = ["npm"]
        allow = ["example.com", { host = "api.example.com", methods = ["GET"], paths = ["/v1/**"] }]
        deny = ["tracker.example.com"]
        [secrets]
        OPENAI_API_KEY = { hosts = ["api.openai.com"], header = "authorization", required = true }
      `),
    )
    assert.deepEqual(wish?.presets, ['npm'])
    assert.deepEqual(wish?.allow.map(describeRule), [
      'example.com on port 80, 443',
      'api.example.com on port 80, 443; methods GET; paths /v1/**',
    ])
    assert.equal(wish?.deny[0]?.ports, 'any')
    assert.deepEqual(wish?.secrets, [
      { name: 'OPENAI_API_KEY', hosts: ['api.openai.com'], header: 'authorization', isRequired: true },
    ])
    assert.ok(wish?.allow.every(({ source }) => source === 'project'))
  })

  test('a project’s file may be missing', () => assert.equal(readProject(scratch), undefined))

  const WRONG: readonly (readonly [string, string, RegExp])[] = [
    ['a table that nobody knows', '[netwrok]\n', /unknown key netwrok/],
    ['a key that nobody knows', '[network]\nallwo = []', /unknown key network\.allwo/],
    [
      'a key in a rule',
      '[network]\nallow = [{ host = "a.com", port = 1 }]',
      /unknown key network\.allow\.0\.port/,
    ],
    ['a value of another kind', '[network]\nallow = "example.com"', /network\.allow/],
    ['a rule for everything', '[network]\nallow = ["*.com"]', /too wide/],
    ['the metadata service', '[network]\nallow = ["metadata.google.internal"]', /no rule can allow/],
    ['a secret with a key of its own', '[secrets]\nA = { value = "x" }', /unknown key secrets\.A\.value/],
    ['a preset that is none', '[network]\npresets = ["nmp"]', /unknown preset: "nmp"/],
    ['TOML that is none', '[network\n', /agentpod\.toml:1:\d+/],
    ['a key twice', '[network]\nmode = "off"\nmode = "open"', /agentpod\.toml:3:/],
    ['a terminal’s language', '["\\u001b[2Jevil"]', /unknown key \?\[2Jevil/],
  ]
  for (const [what, text, words] of WRONG) {
    test(`a project’s file with ${what} is refused with the place`, () =>
      assert.throws(
        () => readProject(project(text)),
        (error) => isAgentPodError(error, 'invalid_argument') && words.test(error.message),
      ))
  }

  test('a mistake in a project’s file gets a suggestion', () =>
    assert.throws(
      () => readProject(project('[network]\nallwo = []')),
      (error) => isAgentPodError(error) && error.hint === 'did you mean allow?',
    ))

  test('a project’s file that is a link is not read', () => {
    const directory = join(scratch, 'odd')
    mkdirSync(directory)
    symlinkSync('/dev/zero', join(directory, 'agentpod.toml'))
    assert.throws(() => readProject(directory), /is a symbolic link, not a file/)
  })
})

describe('user and project together', () => {
  const wish = (network: NetworkTable, source: 'user' | 'project', use: string[] = []) =>
    wishOf({ network, secrets: Object.fromEntries(use.map((name) => [name, {}])) }, source)

  test('without a project, the user’s settings apply', () => {
    const user = wish({ mode: 'open', presets: ['pip'], allow: ['example.com'] }, 'user', ['A'])
    assert.deepEqual(combine(user), { wish: user, asked: undefined })
  })

  test('a project takes less, and gets it unasked', () => {
    const user = wish({ presets: ['npm', 'pip'], allow: ['*.example.com', 'other.org'] }, 'user')
    const { wish: both, asked } = combine(
      user,
      wish({ presets: ['npm'], allow: ['api.example.com'], deny: ['x.example.com'], mode: 'off' }, 'project'),
    )
    assert.equal(asked, undefined)
    assert.deepEqual(
      both.allow.map(({ host }) => host),
      ['api.example.com'],
    )
    assert.deepEqual(both.presets, ['npm'])
    assert.deepEqual(
      both.deny.map(({ host }) => host),
      ['x.example.com'],
    )
    assert.equal(both.mode, 'off')
  })

  test('NET-15 CF-02: what a project wants beyond its grant is asked for, left out until then, and given afterwards', () => {
    const user = wish({ allow: ['example.com'] }, 'user')
    const wanted = wish(
      { mode: 'open', presets: ['npm'], allow: ['example.com', 'evil.test.org'] },
      'project',
      ['KEY'],
    )
    const first = combine(user, wanted)
    assert.deepEqual(
      first.wish.allow.map(({ host }) => host),
      ['example.com'],
    )
    assert.deepEqual([first.wish.mode, first.wish.presets, first.wish.secrets], ['allowlist', [], []])
    assert.ok(first.asked)
    assert.deepEqual(describeApprovalRequest(first.asked), [
      'the network mode open',
      'the hosts of preset npm',
      'evil.test.org on port 80, 443',
      'a placeholder for your secret KEY',
    ])
    const { hash } = first.asked
    const then = combine(user, wanted, (given) => given === hash)
    assert.equal(then.asked, undefined)
    assert.deepEqual(then.wish.allow.map(({ host }) => host).sort(), ['evil.test.org', 'example.com'].sort())
    assert.deepEqual(
      [then.wish.mode, then.wish.presets, then.wish.secrets.map(({ name }) => name)],
      ['open', ['npm'], ['KEY']],
    )
  })

  test('NET-15 CF-02: a changed request of a project is asked again', () => {
    const user = wish({}, 'user')
    const hashes = [
      wish({ allow: ['a.example.com'] }, 'project'),
      wish({ allow: ['b.example.com'] }, 'project'),
      wish({ allow: ['a.example.com'], presets: ['npm'] }, 'project'),
      wish({ allow: ['a.example.com'], mode: 'open' }, 'project'),
      wish({ allow: ['a.example.com'] }, 'project', ['KEY']),
    ].map((one) => combine(user, one).asked?.hash)
    assert.equal(new Set(hashes).size, hashes.length)
    const reordered = [
      wish({ allow: ['a.example.com', 'b.example.com'] }, 'project'),
      wish({ allow: ['b.example.com', 'a.example.com'] }, 'project'),
    ].map((one) => combine(user, one).asked?.hash)
    assert.equal(reordered[0], reordered[1])
  })

  test('an approval is for one project, and is kept', () => {
    const approvals = new Approvals(join(scratch, 'home'))
    const hash = 'a'.repeat(64)
    approvals.add(hash, '/project/one', new Date(0))
    assert.ok(new Approvals(join(scratch, 'home')).has(hash, '/project/one'))
    assert.ok(!approvals.has(hash, '/project/two'))
    assert.ok(!approvals.has('b'.repeat(64), '/project/one'))
    writeFileSync(join(scratch, 'home', 'approvals.json'), '{')
    assert.throws(() => approvals.has(hash, '/project/one'), /is damaged/)
  })
})

test('the user’s own file counts as the user', () => {
  writeFileSync(join(scratch, 'config.toml'), '[network]\nallow = ["example.com"]\n')
  assert.equal(readUser(scratch).allow[0]?.source, 'user')
})

describe('what is learned', () => {
  const seen = (
    host: string,
    port: number,
    reason = 'rule.none',
    verdict: 'denied' | 'allowed' = 'denied',
  ) => ({
    host,
    port,
    reason,
    verdict,
    count: 2,
  })

  test('suggested rules name exact hosts and the ports that were used', () => {
    const { rules, never } = suggestRules([
      seen('b.example.com', 443),
      seen('a.example.com', 443),
      seen('a.example.com', 443),
      seen('a.example.com', 80),
      seen('a.example.com', 8443),
      seen('fine.example.com', 443, 'rule.allow', 'allowed'),
      seen('metadata.google.internal', 80, 'host.never'),
      seen('192.0.2.1', 443, 'address.none'),
      seen('(malformed)', 0, 'host.malformed'),
    ])
    assert.deepEqual(rules, [
      { text: 'a.example.com:80,443,8443', count: 8 },
      { text: 'b.example.com', count: 2 },
    ])
    assert.deepEqual(never, ['(malformed)', '192.0.2.1', 'metadata.google.internal'])
  })

  test('no rules are suggested if nothing was denied', () =>
    assert.deepEqual(suggestRules([seen('a.example.com', 443, 'rule.allow', 'allowed')]), {
      rules: [],
      never: [],
    }))
})
