// Builds over HTTP: accepted and refused requests, permissions, and what is left when a client disconnects.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { BuildEventView, BuildRequestBody } from '../../src/api/schema/build.ts'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import { asPrincipal } from '../support/as-principal.ts'
import { archive } from '../support/build-stage.ts'
import { Front } from '../support/front.ts'

type Step = BuildRequestBody['recipe']['steps'][number]

const directory = mkdtempSync(join(tmpdir(), 'agentpod-builds-api-'))
let front: Front
let mine = ''
let theirs = ''
let admin = ''
before(async () => {
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 }, tmpDir: directory })
  mine = front.key('sandboxes', { mode: 'open' })
  theirs = front.key('sandboxes', { mode: 'open' })
  admin = front.key('admin')
})
after(async () => {
  await front[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})
beforeEach(async () => {
  front.provider.heal()
  for (const { id } of front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL))
    await front.engine.sandboxes.destroy(id, LOCAL)
  await ask('POST', '/prune', { keepBytes: 0 }, admin)
})

async function ask(
  method: string,
  path: string,
  body?: unknown,
  key = mine,
): Promise<{ status: number; text: string; error: Record<string, unknown> }> {
  const response = await fetch(`http://localhost:${front.port}/v1/builds${path}`, {
    method,
    headers: { 'x-api-key': key },
    ...(body !== undefined && { body: Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body) }),
  })
  const text = await response.text()
  let error: Record<string, unknown> = {}
  if (response.status >= 400) error = (JSON.parse(text) as { error: Record<string, unknown> }).error
  return { status: response.status, text, error }
}

function step(name: string, o: Partial<Step> = {}): Step {
  return { name, title: name, run: `write /${name} ${name}`, ...o }
}

const request = (steps: Step[], o: object = {}): object => ({
  recipe: { base: { name: 'host' }, steps },
  ...o,
})

async function build(steps: Step[], o: object = {}, key = mine): Promise<BuildEventView[]> {
  const { status, text } = await ask('POST', '', request(steps, o), key)
  assert.equal(status, 200, text)
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as BuildEventView)
}

async function digestOf(steps: Step[], key = mine): Promise<string> {
  const last = (await build(steps, {}, key)).at(-1)
  assert.ok(last && 'built' in last && last.built.digest, JSON.stringify(last))
  return last.built.digest
}

function errorIn(events: readonly BuildEventView[]): {
  code: string
  reason: string
  message: string
  details?: Record<string, unknown>
  incident?: string
} {
  const last = events.at(-1)
  assert.ok(last && 'error' in last, JSON.stringify(last))
  return last.error as never
}

describe('a request', () => {
  const BAD: readonly (readonly [string, object, RegExp])[] = [
    ['an unknown key', { ...request([]), projct: 'x' }, /projct/],
    ['an unknown key of a step', request([{ ...step('a'), cmd: 'x' } as Step]), /cmd/],
    ['an unknown key of a base', { recipe: { base: { name: 'host', layers: [] }, steps: [] } }, /layers/],
    ['a base that is none', { recipe: { base: { name: 'alpine' }, steps: [] } }, /base/],
    ['a release that is a path', { recipe: { base: { name: 'debian', suite: '../x' }, steps: [] } }, /suite/],
    [
      'an image that is an address',
      { recipe: { base: { name: 'image', image: 'https://a.example.com/x' }, steps: [] } },
      /image/,
    ],
    [
      'a digest of an image that is none',
      { recipe: { base: { name: 'image', image: 'x', digest: 'latest' }, steps: [] } },
      /digest/,
    ],
    ['a name with signs', request([step('a b')]), /name/],
    ['a title that moves the cursor', request([step('a', { title: '\u001b[2J' })]), /title/],
    ['a title of two lines', request([step('a', { title: 'a\nb' })]), /title/],
    ['a project that turns the direction', request([], { project: '\u202ex' }), /project/],
    ['a command with a NUL', request([step('a', { run: 'a\0b' })]), /run/],
    ['a command without end', request([step('a', { run: 'x'.repeat(65 * 1024) })]), /run/],
    ['a user that is none', request([step('a', { user: 'a b' })]), /user/],
    ['a directory that is relative', request([step('a', { workdir: 'x' })]), /workdir/],
    ['a PATH of two in one', request([step('a', { path: ['/a:/b'] })]), /path/],
    ['a variable that is none', request([step('a', { variables: { 'A B': 'x' } })]), /variable/],
    ['a digest that is none', request([step('a', { files: { digest: '../x', to: '/x' } })]), /digest/],
    ['files that go nowhere', request([step('a', { files: { digest: 'a'.repeat(64), to: 'x' } })]), /to/],
    [
      'a rule with an unknown key',
      request([step('a', { network: [{ host: 'a.example.com', evil: true } as never] })]),
      /evil|network/,
    ],
    ['a step without time', request([step('a', { timeoutMs: 1 })]), /timeoutMs/],
    ['a step without end', request([step('a', { timeoutMs: 1e9 })]), /timeoutMs/],
    ['too many steps', request(Array.from({ length: 101 }, (_, n) => step(`s${n}`))), /steps/],
    [
      'too many tools',
      {
        recipe: {
          base: {
            name: 'host',
            tools: Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`t${n}`, '1'])),
          },
          steps: [],
        },
      },
      /tools/,
    ],
  ]
  for (const [what, body, says] of BAD)
    test(`a build request with ${what} is refused before anything is done`, async () => {
      const before = front.provider.calls.length
      const { status, error } = await ask('POST', '', body)
      assert.equal(status, 400)
      assert.match(String(error['message']), says)
      assert.equal(front.provider.calls.length, before)
    })

  test('a build request without a key is refused', async () => {
    for (const [method, path] of [
      ['POST', ''],
      ['GET', '/toolchains'],
      ['GET', '/layers'],
      ['POST', '/prune'],
    ] as const)
      assert.equal((await ask(method, path, method === 'POST' ? {} : undefined, 'nothing')).status, 401, path)
  })

  test('requests about everybody’s layers are only for admins', async () => {
    for (const [method, path, body] of [
      ['GET', '/layers', undefined],
      ['POST', '/prune', { keepBytes: 0 }],
    ] as const) {
      const { status, error } = await ask(method, path, body)
      assert.deepEqual([status, error['reason']], [403, 'key.scope'], path)
      assert.equal((await ask(method, path, body, admin)).status, 200)
    }
  })

  test('a prune request is parsed strictly', async () => {
    for (const body of [
      {},
      { keepBytes: -1 },
      { keepBytes: 1.5 },
      { keepBytes: '1' },
      { keepBytes: 1, force: true },
    ])
      assert.equal((await ask('POST', '/prune', body, admin)).status, 400, JSON.stringify(body))
  })

  test('a build rule that no rule may open is refused with its own message', async () => {
    const { code, message } = errorIn(
      await build([step('a', { network: [{ host: 'metadata.google.internal' }] })]),
    )
    assert.equal(code, 'invalid_argument')
    assert.match(message, /no rule can allow/)
    assert.deepEqual(front.provider.existing, [])
  })
})

describe('a build', () => {
  const given = archive({ 'a.txt': 'hello' })

  test('a build streams its events, and its digest is what sandboxes begin with', async () => {
    const files = { ...given.files, entries: { ...given.files.entries } }
    const steps = [step('one'), step('two', { files, run: 'echo hi' })]
    assert.deepEqual(await build(steps), [{ needs: [given.files.digest] }])
    assert.equal((await ask('POST', `/files/${given.files.digest}`, given.data)).status, 201)
    const events = await build(steps)
    assert.deepEqual(
      events.map((event) =>
        'step' in event ? `${event.step.name} ${event.step.state}` : Object.keys(event)[0],
      ),
      ['one started', 'one done', 'two started', 'output', 'two done', 'built'],
    )
    const output = events.find((event) => 'output' in event)
    assert.ok(output && 'output' in output)
    assert.equal(Buffer.from(output.output.data, 'base64').toString(), 'hi\n')
    const last = events.at(-1)
    assert.ok(last && 'built' in last)
    const sandbox = await front.app.request(
      '/v1/sandboxes',
      {
        method: 'POST',
        body: JSON.stringify({ environment: { digest: last.built.digest } }),
      },
      asPrincipal(LOCAL),
    )
    assert.equal(sandbox.status, 201)
    const { id, environment } = (await sandbox.json()) as { id: SandboxId; environment: string }
    assert.equal(environment, last.built.digest)
    const paths = [...front.provider.inside(id).files.keys()].filter((path) => !path.startsWith('/run/'))
    assert.deepEqual(paths.sort(), ['/one', '/shop/a.txt'])
    const listed = JSON.parse((await ask('GET', '/layers', undefined, admin)).text) as {
      step: string
      inUse: boolean
    }[]
    assert.deepEqual(
      listed.map(({ step: name, inUse }) => [name, inUse]),
      [
        ['one', true],
        ['two', true],
      ],
    )
  })

  test('SECURITY: a digest is useless to others until they build the same', async () => {
    const digest = await digestOf([step('one')])
    const make = async (key: string): Promise<number> => {
      const response = await fetch(`http://localhost:${front.port}/v1/sandboxes`, {
        method: 'POST',
        headers: { 'x-api-key': key },
        body: JSON.stringify({ environment: { digest } }),
      })
      return response.status
    }
    assert.equal(await make(mine), 201)
    assert.equal(await make(admin), 201)
    assert.equal(await make(theirs), 404)
    assert.equal(await digestOf([step('one')], theirs), digest)
    assert.equal(await make(theirs), 201)
  })

  test('SECURITY: the sandbox of a running build is visible to nobody', async () => {
    const slow = build([step('one', { run: 'sleep 60' })])
    while (front.provider.existing.length === 0) await settled()
    const list = async (key: string): Promise<number> => {
      const response = await fetch(`http://localhost:${front.port}/v1/sandboxes`, {
        headers: { 'x-api-key': key },
      })
      return ((await response.json()) as unknown[]).length
    }
    assert.deepEqual([await list(mine), await list(theirs), await list(admin)], [0, 0, 1])
    for (let i = 0; i < 10; i++) await settled()
    await front.clock.advance(60_000)
    assert.ok('built' in ((await slow).at(-1) ?? {}))
  })

  test('a failed build names the step and the command, and keeps its sandbox on request', async () => {
    const { reason, details, message } = errorIn(
      await build([step('one', { run: 'exit 7' })], { keepFailed: true }),
    )
    assert.equal(reason, 'build.step_failed')
    assert.match(message, /exit code 7/)
    assert.equal(details?.['step'], 'one')
    const path = `http://localhost:${front.port}/v1/sandboxes/${String(details?.['sandbox'])}`
    assert.equal((await fetch(path, { headers: { 'x-api-key': mine } })).status, 200)
    assert.equal((await fetch(path, { headers: { 'x-api-key': theirs } })).status, 404)
  })

  test('SECURITY: a build reaches no further than its key', async () => {
    const narrow = front.key('sandboxes', {
      mode: 'allowlist',
      rules: [{ host: 'npm.example.com', source: 'user' }],
    })
    const reach = (host: string): Promise<BuildEventView[]> =>
      build([step('one', { network: [{ host }] })], {}, narrow)
    assert.ok('built' in ((await reach('npm.example.com')).at(-1) ?? {}))
    assert.equal(errorIn(await reach('evil.example.com')).reason, 'network.beyond_key')
    const shut = front.key('sandboxes', { mode: 'off' })
    assert.equal(
      errorIn(await build([step('two', { network: [{ host: 'npm.example.com' }] })], {}, shut)).code,
      'permission_denied',
    )
    assert.ok('built' in ((await build([step('two')], {}, shut)).at(-1) ?? {}), 'what needs nothing is built')
  })

  test('a build that fails for an internal reason is named by an incident, and the log has it', async () => {
    front.provider.fail('create', { code: 'internal', times: 1 })
    const { code, incident, message } = errorIn(await build([step('one')]))
    assert.equal(code, 'internal')
    assert.ok(incident && message.includes(incident))
    assert.ok(front.log.some((line) => line.includes(incident)))
  })

  test('one owner has at most four builds at once', async () => {
    const slow = Array.from({ length: 4 }, (_, n) => build([step(`slow${n}`, { run: `sleep 6${n}` })]))
    while (front.provider.existing.length < 4) await settled()
    const { status, error } = await ask('POST', '', request([step('one')]))
    assert.deepEqual([status, error['code']], [429, 'resource_exhausted'])
    assert.ok('built' in ((await build([step('one')], {}, theirs)).at(-1) ?? {}), 'others have their own')
    for (let i = 0; i < 10; i++) await settled()
    await front.clock.advance(70_000)
    await Promise.all(slow)
    assert.ok('built' in ((await build([step('one')])).at(-1) ?? {}), 'and it goes on')
  })
})

describe('clients that leave or do not read', () => {
  async function until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) await settled()
  }

  test('a client that leaves ends its build', async () => {
    const leave = new AbortController()
    const response = await fetch(`http://localhost:${front.port}/v1/builds`, {
      method: 'POST',
      headers: { 'x-api-key': mine },
      body: JSON.stringify(request([step('one', { run: 'echo a; sleep 9999' })])),
      signal: leave.signal,
    })
    const reader = response.body?.getReader()
    await reader?.read()
    await until(() => front.provider.existing.length === 1)
    leave.abort()
    await reader?.read().catch(() => undefined)
    await until(() => front.provider.existing.length === 0)
    assert.equal(front.engine.layers.list().length, 0)
  })

  test('SECURITY: CP-16. a client that does not read holds the step back, and is cut off after a while', async () => {
    const run = Array.from({ length: 200 }, () => 'echo x').join('; ')
    const response = await front.app.request(
      '/v1/builds',
      {
        method: 'POST',
        body: JSON.stringify(request([step('one', { run })])),
      },
      asPrincipal(LOCAL),
    )
    assert.equal(response.status, 200)
    await until(() => front.provider.existing.length === 1)
    for (let i = 0; i < 50; i++) await settled()
    assert.equal(front.engine.layers.list().length, 0, 'it waits')
    assert.equal(front.provider.existing.length, 1)
    await front.clock.advance(5 * 60_000)
    await until(() => front.provider.existing.length === 0)
    assert.equal(front.engine.layers.list().length, 0)
    assert.ok(
      'built' in ((await build([step('one', { run })])).at(-1) ?? {}),
      'the control: who reads has it built',
    )
  })
})

describe('files for a step', () => {
  const { data, files } = archive({ a: 'x' })

  test('files for a step that do not match their digest are refused, and nothing is kept', async () => {
    const wrong = '0'.repeat(64)
    const { error } = await ask('POST', `/files/${wrong}`, data)
    assert.deepEqual([error['code'], error['reason']], ['invalid_argument', 'build.digest'])
    assert.deepEqual(await build([step('one', { files: { digest: wrong, to: '/x' } })]), [{ needs: [wrong] }])
  })

  for (const digest of ['x', '..%2f..%2fetc%2fpasswd', `${'a'.repeat(63)}G`, `${'a'.repeat(64)}%00`])
    test(`SECURITY: ${digest.slice(0, 24)} is no valid digest`, async () => {
      const { status, error } = await ask('POST', `/files/${digest}`, data)
      assert.deepEqual([status, error['reason']], [400, 'build.digest'])
    })

  test('SECURITY: files of other owners are not found', async () => {
    await ask('POST', `/files/${files.digest}`, data)
    const wanted = [step('one', { files: { digest: files.digest, to: '/x' } })]
    assert.deepEqual(await build(wanted, {}, theirs), [{ needs: [files.digest] }])
    assert.ok('built' in ((await build(wanted)).at(-1) ?? {}))
  })
})

describe('a sandbox with services', () => {
  const make = (environment: object): Promise<Response> =>
    Promise.resolve(
      front.app.request(
        '/v1/sandboxes',
        { method: 'POST', body: JSON.stringify({ environment }) },
        asPrincipal(LOCAL),
      ),
    )
  const BAD: readonly (readonly [string, object])[] = [
    ['a name that is none', { services: [{ name: 'A b', run: 'x' }] }],
    [
      'one name twice',
      {
        services: [
          { name: 'a', run: 'x' },
          { name: 'a', run: 'y' },
        ],
      },
    ],
    ['an unknown key', { services: [{ name: 'a', run: 'x', restart: true }] }],
    ['a port that is none', { services: [{ name: 'a', run: 'x', ready: { port: 0 } }] }],
    ['a check without end', { services: [{ name: 'a', run: 'x', ready: { timeoutMs: 1e9 } }] }],
    ['a stop without end', { services: [{ name: 'a', run: 'x', stopMs: 60_000 }] }],
    ['a signal that nobody asks with', { services: [{ name: 'a', run: 'x', stopSignal: 'SIGKILL' }] }],
    ['too many', { services: Array.from({ length: 33 }, (_, n) => ({ name: `s${n}`, run: 'x' })) }],
    ['a digest that is none', { digest: 'x' }],
    ['an extra that is none', { extras: ['x'] }],
    ['very many extras', { extras: Array.from({ length: 17 }, () => '0'.repeat(64)) }],
    ['a PATH of two in one', { path: ['/a:/b'] }],
    ['a start with a NUL', { start: 'a\0b' }],
  ]
  for (const [what, environment] of BAD)
    test(`a sandbox with services with ${what} is refused`, async () => {
      const response = await make(environment)
      assert.equal(response.status, 400, await response.text())
      assert.deepEqual(front.provider.existing, [])
    })

  test('a sandbox with services lists their names, and starts the waiting ones on request', async () => {
    const response = await make({
      services: [{ name: 'web', run: 'sleep 9999', needsProject: true }],
      start: 'write /x y',
    })
    const { id, services } = (await response.json()) as { id: SandboxId; services: string[] }
    assert.deepEqual(services, ['web'])
    assert.equal(front.provider.inside(id).processes.length, 0)
    assert.equal(
      (await front.app.request(`/v1/sandboxes/${id}/begin`, { method: 'POST' }, asPrincipal(LOCAL))).status,
      200,
    )
    assert.ok(front.provider.inside(id).files.has('/x'))
    await front.app.request(`/v1/sandboxes/${id}/pause`, { method: 'POST' }, asPrincipal(LOCAL))
    assert.equal(
      (await front.app.request(`/v1/sandboxes/${id}/begin`, { method: 'POST' }, asPrincipal(LOCAL))).status,
      409,
    )
  })

  test('a sandbox has its egress link before its services are started', async () => {
    const response = make({
      services: [{ name: 'web', run: 'sleep 9999', ready: { command: 'cat /ready' } }],
    })
    while (front.provider.existing.length === 0) await settled()
    for (let i = 0; i < 10; i++) await settled()
    const [id = ''] = front.provider.existing
    assert.equal(front.engine.sandboxes.get(id, LOCAL).state, 'creating')
    assert.ok(front.egress.links.has(id))
    front.provider.inside(id as SandboxId).files.set('/ready', Buffer.from(''))
    await front.clock.advance(1000)
    assert.equal((await response).status, 201)
  })

  test('a sandbox whose service fails has no egress link any more', async () => {
    const response = make({ services: [{ name: 'web', run: 'exit 1', ready: { command: 'false' } }] })
    for (let i = 0; i < 10; i++) await front.clock.advance(100)
    assert.equal((await response).status, 412)
    assert.equal(front.egress.links.size, 0)
    assert.deepEqual(front.provider.existing, [])
  })
})
