// Volumes over a real listener and a fake provider: keys, tokens, and E2B's routes.

import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { Front } from '../support/front.ts'
import { type TcpAnswer, tcpRequest } from '../support/tcp.ts'

type Json = Record<string, unknown>

let front: Front
let mine = ''
let theirs = ''
let admin = ''
before(async () => {
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 } })
  mine = front.key()
  theirs = front.key()
  admin = front.key('admin')
})
after(() => front[Symbol.asyncDispose]())
beforeEach(async () => {
  for (const { id } of front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL))
    await front.engine.sandboxes.destroy(id, LOCAL)
  for (const { volume } of await front.engine.volumes.list(LOCAL))
    await front.engine.volumes.remove(volume.id, LOCAL)
})

async function ask(
  line: string,
  body?: unknown,
  headers: Record<string, string> = { 'x-api-key': mine },
): Promise<TcpAnswer & { json: Json & Json[] }> {
  const [method = '', path = ''] = line.split(' ')
  const answer = await tcpRequest({
    port: front.port,
    method,
    path,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { ...answer, json: answer.text === '' ? {} : JSON.parse(answer.text) }
}
const as = (key: string): Record<string, string> => ({ 'x-api-key': key })
const reasonOf = ({ json }: { json: Json }): unknown => (json['error'] as Json)['reason']

test('VOL-1 a volume is created, listed, mounted, shown with its use, and removed', async () => {
  const made = await ask('POST /v1/volumes', { name: 'data', sizeMib: 64 })
  assert.equal(made.status, 201)
  const { id, createdAt, ...rest } = made.json
  assert.match(String(createdAt), /^20/)
  const owner = rest['owner']
  assert.deepEqual(rest, {
    name: 'data',
    owner,
    provider: 'fake',
    sizeMib: 64,
    limit: { level: 'enforced' },
    usedBytes: 0,
    sandboxes: [],
  })
  const volumes = [{ volume: 'data', path: '/data', readOnly: true }]
  const sandbox = await ask('POST /v1/sandboxes', { name: 'box', volumes })
  assert.deepEqual(sandbox.json['volumes'], [{ id, name: 'data', path: '/data', readOnly: true }])
  assert.deepEqual((await ask('GET /v1/volumes/data')).json['sandboxes'], [sandbox.json['id']])
  const refused = await ask('DELETE /v1/volumes/data')
  assert.deepEqual([refused.status, reasonOf(refused)], [409, 'volume.used'])
  await ask('DELETE /v1/sandboxes/box')
  assert.equal((await ask('DELETE /v1/volumes/data')).status, 200)
  assert.deepEqual((await ask('GET /v1/volumes')).json, [])
})

test('VOL-5 a key neither sees nor mounts nor removes a volume of another key', async () => {
  const { json } = await ask('POST /v1/volumes', { name: 'data' })
  const id = String(json['id'])
  for (const ref of [id, 'data']) {
    for (const line of [`GET /v1/volumes/${ref}`, `DELETE /v1/volumes/${ref}`, `GET /volumes/${ref}`])
      assert.equal((await ask(line, undefined, as(theirs))).status, 404, line)
    const volumes = [{ volume: ref, path: '/data' }]
    assert.equal((await ask('POST /v1/sandboxes', { volumes }, as(theirs))).status, 404)
  }
  assert.deepEqual((await ask('GET /v1/volumes', undefined, as(theirs))).json, [])
  // The controls: an admin sees it, and its owner mounts it.
  assert.equal((await ask('GET /v1/volumes', undefined, as(admin))).json.length, 1)
  const volumes = [{ volume: id, path: '/data' }]
  assert.equal((await ask('POST /v1/sandboxes', { volumes })).status, 201)
})

test('VOL-6 unknown keys and wrong types in a request are refused', async () => {
  for (const body of [{}, { name: 7 }, { name: 'x', size: 1 }, { name: 'x', sizeMib: '1' }])
    assert.equal((await ask('POST /v1/volumes', body)).status, 400, JSON.stringify(body))
  const bad = [[{ volume: 'x' }], [{ volume: 'x', path: '/x', ro: true }], 'x', [{ path: '/x' }]]
  for (const volumes of bad) assert.equal((await ask('POST /v1/sandboxes', { volumes })).status, 400)
})

test('CP-23 the token of a volume opens the files of that volume and nothing else', async () => {
  const first = (await ask('POST /volumes', { name: 'first' })).json
  const second = (await ask('POST /volumes', { name: 'second' })).json
  const id = String(first['volumeID'])
  const bearer = { authorization: `Bearer ${first['token']}` }
  // The control: the token reaches the route, which asks the sandbox that mounts the volume.
  await ask(`GET /volumecontent/${id}/dir?path=/`, undefined, bearer)
  assert.equal(mountedInAccess(id), true)
  const other = String(second['volumeID'])
  const attempts = [
    `GET /volumecontent/${other}/dir?path=/`,
    `GET /volumes/${id}`,
    `GET /volumes`,
    `GET /v1/volumes`,
    `GET /v1/secrets`,
    `GET /volumecontent/${id}/../../v1/volumes`,
    `GET /volumecontent/${id}/dir/../../../v1/volumes`,
    `GET /volumecontent/${id}/%2e%2e/%2e%2e/v1/volumes`,
    `GET //volumecontent/${id}/dir?path=/`,
    `DELETE /volumes/${id}`,
  ]
  for (const line of attempts) assert.equal((await ask(line, undefined, bearer)).status, 401, line)
  for (const authorization of [
    'Bearer',
    `Bearer ${'0'.repeat(64)}`,
    `Bearer ${second['token']}`,
    String(first['token']),
  ])
    assert.equal((await ask(`GET /volumecontent/${id}/dir?path=/`, undefined, { authorization })).status, 401)
  assert.equal(mountedInAccess(other), false)
})

test('CP-23 the token of a volume ends with the key of its owner', async () => {
  const key = front.key()
  const { json } = await ask('POST /volumes', { name: 'data' }, as(key))
  const line = `GET /volumecontent/${json['volumeID']}/path?path=/`
  const bearer = { authorization: `Bearer ${json['token']}` }
  assert.notEqual((await ask(line, undefined, bearer)).status, 401)
  const [{ owner } = { owner: '' }] = (await front.engine.volumes.list(LOCAL)).map(({ volume }) => volume)
  front.keys.revoke(owner, LOCAL)
  assert.equal((await ask(line, undefined, bearer)).status, 401)
})

test('FS-34 a path in a volume that leads out of it is refused before anything looks at it', async () => {
  const { json } = await ask('POST /volumes', { name: 'data' })
  const files = `/volumecontent/${json['volumeID']}`
  for (const path of ['../etc/passwd', '/a/../../etc', '..', '%2e%2e/x', 'a%00b']) {
    const { status, json: body } = await ask(`GET ${files}/file?path=${path}`)
    assert.equal(status, 400, path)
    assert.equal(body['code'], 400)
  }
})

/** Whether a sandbox of the server mounts the volume for access to its files. */
function mountedInAccess(volume: string): boolean {
  return front.engine.sandboxes
    .list({ labels: {}, all: false }, LOCAL)
    .some(({ id, labels }) => labels['agentpod/volume-access'] === volume && isThere(id))
}

function isThere(id: SandboxId): boolean {
  return front.provider.existing.includes(id)
}
