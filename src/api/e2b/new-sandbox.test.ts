import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import type { SnapshotId } from '../../core/id.ts'
import type { NetworkMode } from '../../core/network.ts'
import type { Principal } from '../../core/principal.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { parseInput } from '../schema/parse.ts'
import { toCreateRequest } from './new-sandbox.ts'
import { newSandbox } from './schema.ts'
import { type Template, templateOfSnapshot, templateOfTemplate, withoutTag } from './template.ts'
import { BASE_FOUND } from './templates/sandbox-from.ts'

const SNAPSHOT = { id: 'snap0000000000000001' as SnapshotId, name: 'mine' } as Snapshot
const templateOf = (ref: string | null | undefined): Template =>
  withoutTag(ref ?? '') === SNAPSHOT.id || withoutTag(ref ?? '') === SNAPSHOT.name
    ? templateOfSnapshot(SNAPSHOT)
    : templateOfTemplate(BASE_FOUND)
const WHO: Principal = { owner: 'key', isAdmin: false, network: { mode: 'open' } }
const translate = (body: unknown): ReturnType<typeof toCreateRequest> => {
  const asked = parseInput(newSandbox, body)
  return toCreateRequest(asked, WHO, templateOf(asked.templateID))
}

test('an empty E2B request creates a base sandbox for five minutes with public ports', () => {
  const expected = {
    owner: 'key',
    labels: { 'agentpod/template': 'base' },
    kit: 'development',
    environment: { base: 'debian', user: 'user', sudo: true, workdir: '', variables: {} },
    lifetime: { ttlMs: 300_000, whenOver: 'destroy', autoResume: false },
    network: { mode: 'open', allow: [], deny: [] },
    ports: { public: true },
  }
  assert.deepEqual(translate({}), expected)
  assert.deepEqual(translate({ templateID: 'base', secure: false, somethingNewer: { a: 1 } }), expected)
})

test('the resources of a template are limits only where the machine can enforce them', () => {
  const template = templateOfTemplate({ ...BASE_FOUND, cpus: 2, memoryMib: 1024 })
  const request = toCreateRequest(parseInput(newSandbox, {}), WHO, template)
  assert.deepEqual(request.resources, { cpus: 2, memoryMib: 1024 })
  assert.equal(request.areLimitsOptional, true)
})

test('the fields that E2B’s SDKs send are translated', () => {
  const request = translate({
    templateID: 'base',
    timeout: 60,
    metadata: { team: 'web', 'odd key &=': '' },
    envVars: { A: '1' },
    allow_internet_access: true,
    network: { allowPublicTraffic: false, allowOut: [], rules: {} },
    autoPause: false,
    autoResume: { enabled: false },
    mcp: null,
    volumeMounts: [],
  })
  assert.deepEqual(request.labels, {
    team: 'web',
    'odd key &=': '',
    'agentpod/template': 'base',
  })
  assert.deepEqual(request.environment?.variables, { A: '1' })
  assert.equal(request.lifetime?.ttlMs, 60_000)
  assert.deepEqual(request.ports, { public: false })
})

test('E2B’s volume mounts become volumes', () =>
  assert.deepEqual(translate({ volumeMounts: [{ name: 'data', path: '/mnt/data' }] }).volumes, [
    { volume: 'data', path: '/mnt/data' },
  ]))

test('an E2B timeout of 0 becomes one second', () =>
  assert.equal(translate({ timeout: 0 }).lifetime?.ttlMs, 1000))

test('E2B’s autoPause decides what happens at the deadline', () => {
  const lifetime = (body: unknown): object => {
    const { ttlMs: _, ...rest } = translate(body).lifetime ?? {}
    return rest
  }
  assert.deepEqual(lifetime({ autoPause: true }), { whenOver: 'pause', toDiskAfterMs: 0, autoResume: false })
  assert.deepEqual(lifetime({ autoPause: true, autoPauseMemory: true, autoResume: { enabled: true } }), {
    whenOver: 'pause',
    toDiskAfterMs: 0,
    autoResume: true,
  })
  assert.deepEqual(lifetime({ autoPause: true, autoPauseMemory: false }), {
    whenOver: 'stop',
    autoResume: false,
  })
  assert.deepEqual(lifetime({ autoPauseMemory: false }), { whenOver: 'destroy', autoResume: false })
})

test('a snapshot is an E2B template, by id and by name', () => {
  for (const templateID of [SNAPSHOT.id, 'mine', 'mine:default', 'mine:latest']) {
    const request = translate({ templateID, envVars: { A: '1' } })
    assert.equal(request.snapshot, SNAPSHOT.id)
    assert.deepEqual(request.environment, { variables: { A: '1' } })
    assert.equal(request.labels?.['agentpod/template'], SNAPSHOT.id)
  }
})

describe('refused is', () => {
  const REFUSED: readonly [what: string, body: unknown, words: RegExp][] = [
    ['a port with TLS of its own', { network: { httpsPorts: [1] } }, /network\.httpsPorts is not supported/],
    ['a proxy', { network: { egressProxy: { address: 'a:1' } } }, /network\.egressProxy/],
    ['a volume without a path', { volumeMounts: [{ name: 'a' }] }, /volumeMounts/],
    [
      'too many volumes',
      { volumeMounts: Array.from({ length: 17 }, (_, n) => ({ name: 'a', path: `/${n}` })) },
      /volumeMounts/,
    ],
    ['an MCP server', { mcp: { exa: {} } }, /mcp is not supported/],
    ['an identity token', { iam: { tokens: { aws: {} } } }, /iam is not supported/],
    ['metadata of ours', { metadata: { 'agentpod/template': 'x' } }, /reserved/],
    ['metadata that is no text', { metadata: { a: 1 } }, /metadata\.a/],
    [
      'too much metadata',
      { metadata: Object.fromEntries([...Array(65).keys()].map((i) => [i, ''])) },
      /at most 64/,
    ],
    ['a long value', { metadata: { a: 'x'.repeat(4097) } }, /metadata\.a/],
    ['a variable with =', { envVars: { 'A=B': '' } }, /envVars/],
    ['a variable with a NUL byte', { envVars: { A: '\0' } }, /NUL/],
    ['a timeout in words', { timeout: '60' }, /timeout/],
    ['half a second', { timeout: 0.5 }, /timeout/],
    ['a negative timeout', { timeout: -1 }, /timeout/],
    ['an array as body', [], /the body/],
    ['null as body', null, /the body/],
  ]
  for (const [what, body, words] of REFUSED) {
    test(`an E2B request with ${what} is refused`, () =>
      assert.throws(
        () => translate(body),
        (error) => isAgentPodError(error) && words.test(error.message),
      ))
  }
})

describe('the network', () => {
  const network = (body: object, mode: NetworkMode = 'open'): unknown =>
    toCreateRequest(
      parseInput(newSandbox, body),
      { owner: 'key', isAdmin: false, network: { mode } },
      templateOf(undefined),
    ).network

  test('the network of an E2B sandbox is open by default, and never wider than the key allows', () => {
    assert.deepEqual(network({}), { mode: 'open', allow: [], deny: [] })
    assert.deepEqual(network({}, 'allowlist'), { mode: 'allowlist', allow: [], deny: [] })
    assert.deepEqual(network({ allow_internet_access: true }, 'off'), { mode: 'off', allow: [], deny: [] })
  })

  test('the network of an E2B sandbox is closed by false or by denying everything, and hosts open it again', () => {
    const closed = { mode: 'allowlist', allow: [], deny: [] }
    assert.deepEqual(network({ allow_internet_access: false }), closed)
    assert.deepEqual(network({ network: { denyOut: ['0.0.0.0/0'] } }), closed)
    assert.deepEqual(
      network({
        network: { denyOut: ['0.0.0.0/0'], allowOut: ['api.example.com', '*.example.org', '192.0.2.7'] },
      }),
      {
        mode: 'allowlist',
        allow: ['api.example.com', '*.example.org'],
        deny: [],
        addresses: { allowed: ['192.0.2.7'], denied: [] },
      },
    )
  })

  test('E2B’s network options accept and deny address blocks', () => {
    assert.deepEqual(network({ network: { denyOut: ['198.51.100.0/24', '2001:db8::/32'] } }), {
      mode: 'open',
      allow: [],
      deny: [],
      addresses: { allowed: [], denied: ['198.51.100.0/24', '2001:db8::/32'] },
    })
  })

  test('E2B’s network rules set headers on outgoing requests', () => {
    const rules = { 'api.example.com': [{ transform: { headers: { 'X-A': '1' } } }, { transform: {} }] }
    assert.deepEqual(network({ network: { rules } }), {
      mode: 'open',
      allow: [],
      deny: [],
      headers: [{ host: 'api.example.com', headers: { 'X-A': '1' } }],
    })
  })
})

test('prototype keys in an E2B request have no effect', () => {
  const body = JSON.parse('{"metadata":{"__proto__":"x","constructor":"y"},"__proto__":{"timeout":1}}')
  const { labels, lifetime } = translate(body)
  assert.deepEqual(Object.keys(labels ?? {}).sort(), ['agentpod/template', 'constructor'])
  assert.equal(lifetime?.ttlMs, 300_000)
})
