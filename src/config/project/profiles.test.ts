import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { describeRule } from '../../policy/rule.ts'
import { combine } from '../grants/combine.ts'
import { wishOf } from '../network/network-table.ts'
import { type ProjectData, projectWish } from './data.ts'
import { applyProfile } from './profiles.ts'
import { parseProject } from './project-file.ts'

const data = (text: string): ProjectData => parseProject({ file: 'agentpod.toml', text }).data

const BASE = `
[environment]
sudo = true
[resources]
cpus = 2
memory = "4GB"
[network]
mode = "open"
presets = ["npm", "pip"]
allow = ["*.example.com", { host = "api.example.org", budget = { bytes = 1000 } }]
deny = ["a.example.com"]
[secrets]
KEY = {}
[agents.permissions]
bash = "allow"
write = "allow"
`

describe('a profile', () => {
  test('sizes, up and down, and leaves what it does not name', () => {
    const { resources } = applyProfile(
      data(`${BASE}[profiles.big.resources]\nmemory = "16GB"\ntimeout = "2h"`),
      'big',
    )
    assert.deepEqual(resources, {
      cpus: 2,
      memoryMib: 16_384,
      diskMib: undefined,
      pids: undefined,
      bandwidthBytes: undefined,
      timeoutMs: 7_200_000,
      idleMs: undefined,
      stepMs: undefined,
    })
  })

  test('narrows the network and makes permissions stricter', () => {
    const { network, agents } = applyProfile(
      data(`${BASE}
        [profiles.ci.network]
        mode = "allowlist"
        presets = ["npm"]
        allow = ["b.example.com", "api.example.org:443"]
        deny = ["c.example.com"]
        intercept = "all"
        [profiles.ci.agents.permissions]
        bash = "deny"
        mcp = "ask"
      `),
      'ci',
    )
    assert.deepEqual([network.mode, network.presets, network.intercept], ['allowlist', ['npm'], 'all'])
    assert.deepEqual(network.allow.map(describeRule), [
      'b.example.com on port 80, 443',
      'api.example.org on port 443; at most 1000 bytes',
    ])
    assert.deepEqual(
      network.deny.map(({ host }) => host),
      ['a.example.com', 'c.example.com'],
    )
    const all = (decision: string): object[] => [{ pattern: '*', decision }]
    assert.deepEqual(agents.permissions, { bash: all('deny'), write: all('allow'), mcp: all('ask') })
  })

  test('an empty profile changes nothing', () => {
    const whole = data(`${BASE}[profiles.same]`)
    const { network, ...rest } = applyProfile(whole, 'same')
    const { narrowedFrom: _, ...own } = network
    assert.deepEqual({ ...rest, network: own }, whole)
  })

  test('an unknown profile is an error that names the known ones', () => {
    const two = data('[profiles.ci]\n[profiles.local]')
    for (const [name, hint] of [
      ['locl', 'did you mean local?'],
      ['production', 'there are ci, local'],
      ['__proto__', 'there are ci, local'],
    ] as const)
      assert.throws(
        () => applyProfile(two, name),
        (error) =>
          isAgentPodError(error, 'invalid_argument') &&
          error.message === `unknown profile: "${name}"` &&
          error.hint === hint,
      )
    assert.throws(
      () => applyProfile(data(''), 'ci'),
      (error) => isAgentPodError(error) && error.hint === 'the project has no profiles',
    )
  })
})

describe('a profile and its user', () => {
  const user = wishOf({ network: { allow: ['*.example.com'], presets: ['npm'] } }, 'user')
  const whole = data(`${BASE}
    [profiles.ci.network]
    presets = ["npm"]
    allow = ["b.example.com", "api.example.org"]
    [profiles.none.network]
    presets = []
    allow = []
  `)
  const ci = projectWish(applyProfile(whole, 'ci'))

  test('the question is the one about the whole file', () => {
    const asked = combine(user, projectWish(whole)).asked
    assert.ok(asked)
    assert.deepEqual(combine(user, ci).asked, asked)
    const isApproved = (hash: string): boolean => hash === asked.hash
    const { wish, asked: more } = combine(user, ci, isApproved)
    assert.equal(more, undefined)
    assert.deepEqual(wish.presets, ['npm'])
    assert.deepEqual(
      wish.allow.map(({ host }) => host),
      ['b.example.com', 'api.example.org'],
    )
    assert.equal(wish.mode, 'open')
    assert.deepEqual(
      wish.deny.map(({ host }) => host),
      ['a.example.com'],
    )
    assert.deepEqual(wish.privileges, { sudo: true, ports: [], permissions: ['bash', 'write'] })
    assert.deepEqual(
      wish.secrets.map(({ name }) => name),
      ['KEY'],
    )
  })

  test('CF-02: without an answer it has what both have, and no more', () => {
    const { wish } = combine(user, ci)
    assert.deepEqual(
      wish.allow.map(({ host }) => host),
      ['b.example.com'],
    )
    assert.deepEqual([wish.mode, wish.presets, wish.secrets], ['allowlist', ['npm'], []])
    assert.deepEqual(wish.privileges, { sudo: false, ports: [], permissions: [] })
  })

  test('CF-02: lists that are empty mean nothing, and not all that the user has', () => {
    const { wish } = combine(user, projectWish(applyProfile(whole, 'none')), () => true)
    assert.deepEqual([wish.allow, wish.presets], [[], []])
    const empty = data('[network]\nallow = []')
    assert.deepEqual(combine(user, projectWish(empty)).wish.allow, [])
    assert.equal(combine(user, projectWish(data('[network]\nmode = "allowlist"'))).wish.allow.length, 1)
  })
})
