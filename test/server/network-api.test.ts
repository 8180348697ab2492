// Network rules and secrets, over a real listener, a fake provider and an egress process that records its
// instructions.

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { SandboxId } from '../../src/core/id.ts'
import type { NetRecord } from '../../src/core/network.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { LinkSpec } from '../../src/egress/control/link-spec.ts'
import { decide } from '../../src/policy/decide.ts'
import { parseHostName } from '../../src/policy/host-name.ts'
import { Front } from '../support/front.ts'
import { errorOf, type TcpAnswer, tcpRequest } from '../support/tcp.ts'

type Json = Record<string, unknown>

const VALUE = 'sk-live-0123456789abcdef'
let front: Front
let mine = ''
let theirs = ''
let admin = ''
before(async () => {
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 } })
  mine = front.key('sandboxes', { mode: 'open' })
  theirs = front.key()
  admin = front.key('admin')
})
after(() => front[Symbol.asyncDispose]())
beforeEach(async () => {
  await Promise.all(
    front.engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .map(({ id }) => front.engine.sandboxes.destroy(id, LOCAL)),
  )
  for (const { id } of front.engine.snapshots.list(LOCAL)) await front.engine.snapshots.remove(id, LOCAL)
})

async function ask(line: string, body?: unknown, key = mine): Promise<TcpAnswer & { json: Json }> {
  const [method = '', path = ''] = line.split(' ')
  const answer = await tcpRequest({
    port: front.port,
    method,
    path,
    headers: { 'x-api-key': key },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { ...answer, json: answer.text === '' ? {} : (JSON.parse(answer.text) as Json) }
}

async function create(network?: unknown, key = mine): Promise<SandboxId> {
  const { status, json } = await ask('POST /v1/sandboxes', { network }, key)
  assert.equal(status, 201, JSON.stringify(json))
  return json['id'] as SandboxId
}

const linkOf = (id: string): LinkSpec => front.egress.links.get(id) ?? assert.fail(`no link of ${id}`)
const isAllowed = (id: string, host: string, port = 443): boolean =>
  decide(linkOf(id).policy, { host: parseHostName(host), port }).allowed
const insideOf = (id: SandboxId) => front.provider.inside(id).init.value ?? assert.fail('not configured')
const setSecret = (more: object = {}, key = mine): Promise<TcpAnswer & { json: Json }> =>
  ask('POST /v1/secrets', { name: 'KEY', value: VALUE, hosts: ['api.example.com'], ...more }, key)

describe('a sandbox', () => {
  test('a sandbox reaches nothing unless rules are given', async () => {
    const id = await create()
    assert.deepEqual([linkOf(id).policy.mode, linkOf(id).policy.rules], ['allowlist', []])
    const { json } = await ask(`GET /v1/sandboxes/${id}`)
    assert.deepEqual(json['network'], { mode: 'allowlist', level: 'transparent', reason: null, secrets: [] })
  })

  test('a sandbox reaches what its rules allow, and shows its rules and their use', async () => {
    const id = await create({
      allow: ['example.com', { host: '*.example.org', ports: [8443], source: 'preset npm' }],
      deny: ['bad.example.org'],
    })
    assert.ok(isAllowed(id, 'example.com') && isAllowed(id, 'a.example.org', 8443))
    assert.ok(!isAllowed(id, 'example.net') && !isAllowed(id, 'bad.example.org', 8443))
    const { json } = await ask(`GET /v1/sandboxes/${id}/network`)
    assert.deepEqual(json['rules'], [
      { host: 'example.com', ports: [80, 443], source: 'create' },
      { host: '*.example.org', ports: [8443], source: 'preset npm' },
    ])
    assert.equal((json['counts'] as Json)['allowed'], 2)
    const stats = await ask(`GET /v1/sandboxes/${id}/stats`)
    assert.equal((stats.json['network'] as Json)['denied'], 1)
  })

  const WRONG: readonly (readonly [string, unknown, RegExp])[] = [
    ['everything below com', { allow: ['*.com'] }, /too wide/],
    ['the metadata service', { allow: ['metadata.google.internal'] }, /no rule can allow/],
    ['an address', { allow: ['169.254.169.254'] }, /address/],
    ['a key that is none', { allow: [{ host: 'a.example.com', prot: [1] }] }, /prot|union|Invalid/],
    ['a source of its own making', { allow: [{ host: 'a.example.com', source: 'the king' }] }, /./],
    ['a mode that is none', { mode: 'wide' }, /mode/],
    ['a secret that is none', { secrets: ['NOPE'] }, /there is no secret/],
    ['a block that is none', { addresses: { allowed: ['10.0.0.0/99'] } }, /block/],
  ]
  for (const [what, network, words] of WRONG) {
    test(`a sandbox with ${what} is refused, and nothing is left of it`, async () => {
      const before = front.engine.usage.count
      const { status, json } = await ask('POST /v1/sandboxes', { network })
      assert.ok(status === 400 || status === 404, String(status))
      assert.match(JSON.stringify(json), words)
      assert.equal(front.engine.usage.count, before)
    })
  }

  test('NET-16 a sandbox gets proxy variables in both cases, certificates, and no key of the authority', async () => {
    const id = await create()
    const { env, trust } = insideOf(id)
    for (const name of ['HTTP_PROXY', 'https_proxy']) assert.equal(env[name], 'http://127.0.0.1:61080')
    assert.equal(env['SSL_CERT_FILE'], '/run/agentpod/ca-bundle.pem')
    assert.match(trust?.ca ?? '', /BEGIN CERTIFICATE/)
    assert.equal(trust?.ca, linkOf(id).authority?.cert)
    assert.ok(!JSON.stringify(insideOf(id)).includes('PRIVATE KEY'))
    const kept = JSON.stringify(front.state.prepare('SELECT * FROM sandboxes').all())
    assert.ok(!kept.includes('PRIVATE KEY'))
  })

  test('a sandbox loses its egress link when it ends, and gets it back when it runs again', async () => {
    const id = await create({ allow: ['example.com'] })
    const first = linkOf(id)
    await ask(`POST /v1/sandboxes/${id}/stop`)
    assert.equal(front.egress.links.get(id), undefined)
    await ask(`POST /v1/sandboxes/${id}/start`)
    assert.deepEqual(linkOf(id), first)
    await ask(`DELETE /v1/sandboxes/${id}`)
    assert.equal(front.egress.links.get(id), undefined)
  })
})

test('CF-02: rules that are cut from one grant share its budget everywhere', async () => {
  const within = { host: '*.example.com', budget: { requestsPerMinute: 2 }, source: 'user' }
  const allow = ['a', 'b'].map((name) => ({
    host: `${name}.example.com`,
    budget: within.budget,
    source: 'project',
    within,
  }))
  const id = await create({ allow })
  assert.deepEqual(
    linkOf(id).policy.rules.map((rule) => [rule.host, rule.within?.host, rule.within?.budget]),
    [
      ['a.example.com', '*.example.com', { requestsPerMinute: 2 }],
      ['b.example.com', '*.example.com', { requestsPerMinute: 2 }],
    ],
  )
  await ask(`POST /v1/sandboxes/${id}/stop`)
  await ask(`POST /v1/sandboxes/${id}/start`)
  assert.equal(linkOf(id).policy.rules[0]?.within?.host, '*.example.com')
})

describe('rule changes', () => {
  test('a rule change reaches the egress process at once, and can be undone', async () => {
    const id = await create()
    const { json } = await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.com:8443'] })
    assert.deepEqual(json['rules'], [{ host: 'example.com', ports: [8443], source: 'live' }])
    assert.ok(isAllowed(id, 'example.com', 8443))
    await ask(`POST /v1/sandboxes/${id}/network`, { deny: ['example.com'] })
    assert.ok(!isAllowed(id, 'example.com', 8443))
    await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.com'] })
    assert.ok(isAllowed(id, 'example.com'))
    await ask(`POST /v1/sandboxes/${id}/network`, { forget: ['example.com'] })
    assert.ok(!isAllowed(id, 'example.com') && !isAllowed(id, 'example.com', 8443))
    await ask(`POST /v1/sandboxes/${id}/network`, { mode: 'open' })
    assert.ok(isAllowed(id, 'anything.example.net'))
    const events = await ask(`GET /v1/sandboxes/${id}/events?type=network.changed`)
    assert.equal((events.json as unknown as Json[]).length, 5)
  })

  test('a rule change survives a restart of the sandbox and a fork', async () => {
    const id = await create()
    await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.com'] })
    await ask(`POST /v1/sandboxes/${id}/stop`)
    await ask(`POST /v1/sandboxes/${id}/start`)
    assert.ok(isAllowed(id, 'example.com'))
    const forked = await ask(`POST /v1/sandboxes/${id}/fork`, {})
    const [one] = forked.json as unknown as { sandbox: { id: string } }[]
    assert.ok(isAllowed(one?.sandbox.id ?? '', 'example.com'))
  })

  test('a rule change of a stopped sandbox takes effect at its next start', async () => {
    const id = await create()
    await ask(`POST /v1/sandboxes/${id}/stop`)
    await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.com'] })
    assert.equal(front.egress.links.get(id), undefined)
    await ask(`POST /v1/sandboxes/${id}/start`)
    assert.ok(isAllowed(id, 'example.com'))
  })
})

test('an explanation names the rule, the reason and what to do', async () => {
  const id = await create({ allow: [{ host: 'example.com', methods: ['GET'], paths: ['/v1/**'] }] })
  const explain = async (url: string, method?: string): Promise<Json> =>
    (await ask(`POST /v1/sandboxes/${id}/network/explain`, { url, method })).json
  assert.equal((await explain('https://example.com/v1/x'))['allowed'], true)
  assert.deepEqual(
    [
      (await explain('https://example.com/v1/x', 'POST'))['allowed'],
      (await explain('https://example.com/'))['allowed'],
    ],
    [false, false],
  )
  assert.equal((await explain('example.com:443'))['reason'], 'request.unseen')
  assert.match(
    String((await explain('https://example.net'))['text']),
    /refused: GET example\.net:443\n.*no rule allows/,
  )
  const wrong = await ask(`POST /v1/sandboxes/${id}/network/explain`, { url: 'https://exa mple' })
  assert.equal(wrong.status, 400)
})

describe('a key', () => {
  test('a key without settings may have rules and no open network', async () => {
    const id = await create({ allow: ['example.com'] }, theirs)
    assert.ok(isAllowed(id, 'example.com'))
    const open = await ask('POST /v1/sandboxes', { network: { mode: 'open' } }, theirs)
    assert.deepEqual([open.status, errorOf(open).reason], [403, 'network.beyond_key'])
    const live = await ask(`POST /v1/sandboxes/${id}/network`, { mode: 'open' }, theirs)
    assert.equal(live.status, 403)
    assert.ok(!isAllowed(id, 'other.example.com'))
  })

  test('NET-15 a key with rules gives its sandboxes nothing beyond them', async () => {
    const made = await ask(
      'POST /v1/keys',
      { network: { mode: 'allowlist', allow: ['*.example.com'] } },
      admin,
    )
    const narrow = String(made.json['secret'])
    const id = await create({ allow: ['api.example.com'] }, narrow)
    assert.ok(isAllowed(id, 'api.example.com'))
    for (const network of [
      { allow: ['example.org'] },
      { allow: ['api.example.com:22'] },
      { allow: ['api.example.com'], addresses: { allowed: ['192.0.2.1'] } },
    ]) {
      const refused = await ask('POST /v1/sandboxes', { network }, narrow)
      assert.deepEqual(
        [refused.status, errorOf(refused).reason],
        [403, 'network.beyond_key'],
        JSON.stringify(network),
      )
    }
    const live = await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.org'] }, narrow)
    assert.equal(live.status, 403)
  })

  test('CF-02: a secret of a key opens no host that the key may not reach', async () => {
    const made = await ask(
      'POST /v1/keys',
      { network: { mode: 'allowlist', allow: ['ok.example.com'] } },
      admin,
    )
    const narrow = String(made.json['secret'])
    const beyond = await setSecret({ hosts: ['evil.example.net'] }, narrow)
    assert.deepEqual([beyond.status, errorOf(beyond).reason], [403, 'network.beyond_key'])
    assert.equal((await setSecret({ hosts: ['ok.example.com'] }, narrow)).status, 201)
  })

  test('a key without network takes away even what a snapshot had', async () => {
    const off = String((await ask('POST /v1/keys', { network: { mode: 'off' } }, admin)).json['secret'])
    const id = await create(undefined, off)
    assert.equal(linkOf(id).policy.mode, 'off')
  })

  test('a key sees neither the network nor the rules of another owner’s sandbox', async () => {
    const id = await create()
    for (const line of [
      `GET /v1/sandboxes/${id}/network`,
      `POST /v1/sandboxes/${id}/network`,
      `POST /v1/sandboxes/${id}/network/explain`,
    ]) {
      const answer = await ask(
        line,
        line.startsWith('POST') ? { url: 'example.com', mode: undefined } : undefined,
        theirs,
      )
      assert.ok(answer.status === 404 || answer.status === 400, `${line}: ${answer.status}`)
    }
    assert.equal(
      (await ask(`POST /v1/sandboxes/${id}/network`, { allow: ['example.com'] }, theirs)).status,
      404,
    )
  })
})

describe('a secret', () => {
  test('NET-12 an API answer shows the slot of a secret and nothing else of it', async () => {
    const set = await setSecret({ header: 'X-Api-Key' })
    assert.equal(set.status, 201)
    assert.deepEqual(
      [set.json['header'], set.json['scheme'], set.json['variable']],
      ['x-api-key', { kind: 'bare' }, 'KEY'],
    )
    const listed = await ask('GET /v1/secrets')
    assert.equal((listed.json as unknown as Json[]).length, 1)
    for (const text of [
      set.text,
      listed.text,
      JSON.stringify(front.state.prepare('SELECT * FROM secrets').all()),
      front.log.join(''),
    ])
      assert.ok(!text.includes(VALUE))
  })

  const WRONG: readonly (readonly [string, object])[] = [
    ['a line end in it', { value: 'abcdefgh\nX-Evil: 1' }],
    ['a space at its end', { value: 'abcdefgh ' }],
    ['seven characters', { value: 'abcdefg' }],
    ['a star for a host', { hosts: ['*.example.com'] }],
    ['no host', { hosts: [] }],
    ['the host itself for a host', { hosts: ['localhost'] }],
    ['the header Host', { header: 'Host' }],
    ['a header of a proxy', { header: 'Proxy-Authorization' }],
    ['a header with a line end', { header: 'a\r\nb' }],
    ['a name that is a path', { name: '../x' }],
    ['a variable with =', { variable: 'A=B' }],
    ['a colon in its user', { scheme: { kind: 'basic', user: 'a:b' } }],
    ['Basic in another header', { header: 'x-key', scheme: { kind: 'basic', user: 'a' } }],
  ]
  for (const [what, more] of WRONG)
    test(`a secret with ${what} is refused`, async () => assert.equal((await setSecret(more)).status, 400))

  test('NET-12 a secret is a placeholder inside, and only the egress process gets its value', async () => {
    await setSecret()
    const id = await create({ secrets: ['KEY'] })
    const placeholder = insideOf(id).env['KEY'] ?? ''
    assert.match(placeholder, /^agentpod[a-z0-9]{40}$/)
    const [bound] = linkOf(id).secrets
    assert.deepEqual(
      [bound?.placeholder, bound?.value, bound?.slot.hosts],
      [placeholder, VALUE, ['api.example.com']],
    )
    assert.ok(isAllowed(id, 'api.example.com'))
    assert.ok(!isAllowed(id, 'api.example.com', 80) && !isAllowed(id, 'other.example.com'))
    assert.ok(!JSON.stringify(insideOf(id)).includes(VALUE))
    assert.ok(insideOf(id).env['JAVA_TOOL_OPTIONS'])
  })

  test('SE-09: a secret has another placeholder in every sandbox, fork and restored one, and the same after a stop', async () => {
    await setSecret()
    const id = await create({ secrets: ['KEY'] })
    const other = await create({ secrets: ['KEY'] })
    const forked = await ask(`POST /v1/sandboxes/${id}/fork`, {})
    const [fork] = forked.json as unknown as { sandbox: { id: SandboxId } }[]
    const snapshot = (await ask(`POST /v1/sandboxes/${id}/snapshots`, {})).json['id']
    const restored = (await ask('POST /v1/sandboxes', { snapshot })).json['id'] as SandboxId
    const all = [id, other, fork?.sandbox.id ?? ('' as SandboxId), restored]
    const placeholders = all.map((one) => insideOf(one).env['KEY'])
    assert.ok(placeholders.every(Boolean))
    assert.equal(new Set(placeholders).size, 4)
    assert.equal(new Set(all.map((one) => linkOf(one).authority?.cert)).size, 4)
    await ask(`POST /v1/sandboxes/${id}/stop`)
    await ask(`POST /v1/sandboxes/${id}/start`)
    assert.equal(insideOf(id).env['KEY'], placeholders[0])
  })

  test('a rotated or removed secret takes effect in running sandboxes', async () => {
    await setSecret()
    const id = await create({ secrets: ['KEY'] })
    const rotated = await ask('POST /v1/secrets/KEY/rotate', { value: 'another-value-1234' })
    assert.equal(rotated.json['version'], Number(rotated.json['version']))
    assert.equal(linkOf(id).secrets[0]?.value, 'another-value-1234')
    assert.equal((await ask('DELETE /v1/secrets/KEY')).status, 200)
    assert.deepEqual(linkOf(id).secrets, [])
    assert.ok(!isAllowed(id, 'api.example.com'))
    assert.equal((await ask('DELETE /v1/secrets/KEY')).status, 404)
    assert.equal((await ask('POST /v1/secrets/KEY/rotate', { value: 'another-value-1234' })).status, 404)
  })

  test('a secret that is rotated while its sandbox is stopped opens nothing, and takes effect at the next start', async () => {
    await setSecret()
    const id = await create({ secrets: ['KEY'] })
    await ask(`POST /v1/sandboxes/${id}/stop`)
    await ask('POST /v1/secrets/KEY/rotate', { value: 'another-value-1234' })
    assert.equal(front.egress.links.get(id), undefined)
    await ask(`POST /v1/sandboxes/${id}/start`)
    assert.equal(linkOf(id).secrets[0]?.value, 'another-value-1234')
  })

  test('CP-07: a secret is visible to its owner alone', async () => {
    await setSecret()
    assert.deepEqual((await ask('GET /v1/secrets', undefined, theirs)).json, [])
    assert.equal((await ask('DELETE /v1/secrets/KEY', undefined, theirs)).status, 404)
    assert.equal((await ask('POST /v1/sandboxes', { network: { secrets: ['KEY'] } }, theirs)).status, 404)
    const id = await create({ secrets: ['KEY'] })
    const snapshot = (await ask(`POST /v1/sandboxes/${id}/snapshots`, {})).json['id']
    // An admin may use another's snapshot, and has no secret of that name.
    const { json } = await ask('POST /v1/sandboxes', { snapshot }, admin)
    assert.deepEqual((json['network'] as Json)['secrets'], [])
    assert.equal(insideOf(json['id'] as SandboxId).env['KEY'], undefined)
  })
})

describe('decisions', () => {
  const record = (sandboxId: string, n: number): NetRecord => ({
    sandboxId,
    at: n,
    until: n,
    count: 1,
    verdict: 'denied',
    reason: 'rule.none',
    host: `h${n}.example.com`,
    port: 443,
    via: 'direct',
    message: 'no rule allows it',
    bytesIn: 0,
    bytesOut: 0,
  })

  test('decisions are events of their sandbox, and lines of the audit log', async () => {
    const id = await create()
    front.engine.networks.recordDecisions([record(id, 1), record(id, 2), record('nobodys0000000000', 3)])
    const events = await ask(`GET /v1/sandboxes/${id}/events?type=network.decision`)
    const list = events.json as unknown as { data: Json }[]
    assert.deepEqual(
      list.map(({ data }) => data['host']),
      ['h1.example.com', 'h2.example.com'],
    )
    const audit = await ask('GET /v1/audit/network', undefined, admin)
    const last = (audit.json as unknown as Json[]).at(-1)
    assert.equal(last?.['sandboxId'], id)
    assert.equal((await ask('GET /v1/audit/network')).status, 403)
  })

  test('the oldest decisions of a sandbox are removed for newer ones', async () => {
    const id = await create()
    for (let n = 0; n < 30; n++)
      front.engine.networks.recordDecisions(Array.from({ length: 1000 }, (_, i) => record(id, n * 1000 + i)))
    let count = 0
    for (let after = 0; ; ) {
      const page = (await ask(`GET /v1/sandboxes/${id}/events?type=network.decision&after=${after}`))
        .json as unknown as { seq: number }[]
      if (page.length === 0) break
      count += page.length
      after = page.at(-1)?.seq ?? 0
    }
    assert.ok(count >= 10_000 && count <= 10_300, String(count))
    const others = await ask(`GET /v1/sandboxes/${id}/events?type=sandbox.creating`)
    assert.equal((others.json as unknown as Json[]).length, 1)
  })
})

describe('metered sandboxes', () => {
  test('a metered sandbox stays metered after any change, and its copies are not metered', async () => {
    const { id } = await front.engine.sandboxes.create(
      { network: { meter: true, allow: ['a.example.com'] } },
      LOCAL,
    )
    assert.equal(linkOf(id).meter, true)
    await front.engine.networks.change(id, { allow: ['b.example.com'] }, LOCAL)
    assert.equal(linkOf(id).meter, true)
    await front.engine.networks.replace(id, { allow: [] }, LOCAL)
    assert.equal(linkOf(id).meter, true)
    const [forked] = await front.engine.sandboxes.fork(id, {}, LOCAL)
    assert.ok(forked && 'sandbox' in forked)
    assert.equal(linkOf(forked.sandbox.id).meter, undefined)
    assert.equal(linkOf(await create()).meter, undefined, 'the control')
  })

  test('no API request can ask for metering', async () => {
    const { status } = await ask('POST /v1/sandboxes', { network: { meter: true } })
    assert.equal(status, 400)
  })

  test('a metered sandbox reports its counts to the engine’s listeners', () => {
    const heard: unknown[] = []
    const leave = front.engine.networks.onModelUsage((id, usage) => heard.push([id, usage]))
    front.engine.networks.recordUsage([{ sandboxId: 'sb', model: 'm', input: 1, cached: 2, output: 3 }])
    leave()
    front.engine.networks.recordUsage([{ sandboxId: 'sb', model: 'm', input: 1, cached: 2, output: 3 }])
    assert.deepEqual(heard, [['sb', { model: 'm', input: 1, cached: 2, output: 3 }]])
  })
})

describe('E2B', () => {
  test('E2B’s network update replaces the network, within the cap of the key', async () => {
    const made = await ask('POST /sandboxes', { templateID: 'base', allow_internet_access: false })
    const id = String(made.json['sandboxID'])
    assert.ok(!isAllowed(id, 'api.example.com'))
    const put = await ask(`PUT /sandboxes/${id}/network`, {
      allowOut: ['api.example.com'],
      denyOut: ['0.0.0.0/0'],
      rules: { 'api.example.com': [{ transform: { headers: { 'X-Key': 'v' } } }] },
    })
    assert.equal(put.status, 204, put.text)
    assert.ok(isAllowed(id, 'api.example.com') && !isAllowed(id, 'other.example.com'))
    assert.deepEqual(linkOf(id).headers, [{ host: 'api.example.com', headers: { 'X-Key': 'v' } }])
    const { json } = await ask(`GET /sandboxes/${id}`)
    const network = json['network'] as Json
    assert.deepEqual(
      [network['allowOut'], network['denyOut'], json['allowInternetAccess']],
      [['api.example.com'], ['0.0.0.0/0'], false],
    )
    await ask(`PUT /sandboxes/${id}/network`, {})
    assert.ok(isAllowed(id, 'other.example.com'))
    assert.equal(linkOf(id).headers, undefined)
  })

  test('E2B’s open network needs a key that may be open', async () => {
    const open = await ask('POST /sandboxes', { templateID: 'base' })
    assert.ok(isAllowed(String(open.json['sandboxID']), 'anything.example.com'))
    const capped = await ask('POST /sandboxes', { templateID: 'base', allow_internet_access: true }, theirs)
    assert.equal(capped.status, 201)
    assert.ok(!isAllowed(String(capped.json['sandboxID']), 'anything.example.com'))
    const info = await ask(`GET /sandboxes/${String(capped.json['sandboxID'])}`, undefined, theirs)
    assert.equal(info.json['allowInternetAccess'], false)
  })

  test('E2B’s rules refuse a header that redirects a request', async () => {
    const network = { rules: { 'a.example.com': [{ transform: { headers: { Host: 'evil.example.com' } } }] } }
    assert.equal((await ask('POST /sandboxes', { templateID: 'base', network })).status, 400)
  })
})
