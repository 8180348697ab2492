import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { type ErrorCode, isAgentPodError } from '../../../core/error.ts'
import { Daemon } from './daemon.ts'

const run = promisify(execFile)
const CALL = { timeoutMs: 5000 }
const PING = { method: 'GET', path: '/thing' } as const

/** A server in Docker's place, that says what a test wants. */
describe('calls to the Docker daemon', () => {
  let directory: string
  let socket: string
  let server: Server
  let answer: RequestListener
  let daemon: Daemon
  const versions = { ApiVersion: '1.44', MinAPIVersion: '1.24', Version: '25.0' }
  let seen: string[]

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'agentpod-docker-daemon-'))
    socket = join(directory, 'docker.sock')
    server = createServer((request, response) => {
      seen.push(`${request.method} ${request.url}`)
      answer(request, response)
    })
    await new Promise<void>((resolve) => server.listen(socket, resolve))
  })
  beforeEach(() => {
    seen = []
    daemon = new Daemon({ DOCKER_HOST: `unix://${socket}` })
    answer = says(versions)
  })
  after(() => {
    server.close()
    server.closeAllConnections()
    rmSync(directory, { recursive: true })
  })

  const says =
    (version: object, status = 200, body: unknown = {}): RequestListener =>
    (request, response) => {
      const isVersion = request.url?.startsWith('/version')
      response.writeHead(isVersion ? 200 : status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isVersion ? version : body))
    }

  const refused = (work: Promise<unknown>, code: ErrorCode, reason: string): Promise<void> =>
    assert.rejects(work, (error) => {
      assert.ok(isAgentPodError(error, code), String(error))
      assert.equal(error.reason, reason)
      return true
    })

  test('calls to the Docker daemon use the oldest version that both know, and negotiate it once', async () => {
    await daemon.json(PING, CALL)
    await daemon.json({ method: 'POST', path: '/other', query: { a: 'b c' }, body: { x: 1 } }, CALL)
    assert.deepEqual(seen, ['GET /version', 'GET /v1.41/thing', 'POST /v1.41/other?a=b%20c'])
    answer = says({ ...versions, MinAPIVersion: '1.43' })
    await new Daemon({ DOCKER_HOST: `unix://${socket}` }).json(PING, CALL)
    assert.equal(seen.at(-1), 'GET /v1.43/thing')
  })

  test('a Docker daemon that is too old, or not a Docker daemon, is reported', async () => {
    answer = says({ ApiVersion: '1.40', Version: '19.03' })
    await refused(daemon.json(PING, CALL), 'failed_precondition', 'docker.old')
    answer = says({ hello: 'world' })
    await refused(daemon.json(PING, CALL), 'unavailable', 'docker.protocol')
  })

  test('a Docker daemon that is not there, or denies access, is unavailable', async () => {
    const absent = new Daemon({ DOCKER_HOST: `unix://${directory}/none.sock` })
    await refused(absent.json(PING, CALL), 'unavailable', 'docker.absent')
    await refused(
      new Daemon({ DOCKER_HOST: 'tcp://127.0.0.1:1' }).json(PING, CALL),
      'unavailable',
      'docker.absent',
    )
  })

  test('an ordinary user without access to the Docker daemon is told how to get it', {
    skip: process.getuid?.() !== 0 && 'needs root',
  }, async () => {
    chmodSync(directory, 0o755)
    chmodSync(socket, 0o600)
    const program = `
      const { Daemon } = await import(${JSON.stringify(join(import.meta.dirname, 'daemon.ts'))})
      process.setuid(65534)
      await new Daemon({ DOCKER_HOST: 'unix://${socket}' }).json({ method: 'GET', path: '/x' }, { timeoutMs: 5000 })
        .catch((error) => console.log(error.code, error.reason, error.hint))`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program])
    assert.match(stdout, /^unavailable docker\.permission join the group docker/)
  })

  test('errors of the Docker daemon keep their code and message, without control characters', async () => {
    for (const [status, code] of [
      [404, 'not_found'],
      [409, 'conflict'],
      [400, 'invalid_argument'],
      [503, 'unavailable'],
      [500, 'failed_precondition'],
    ] as const) {
      answer = says(versions, status, { message: 'no\u001b[31m such thing' })
      await assert.rejects(daemon.json(PING, CALL), (error) => {
        assert.ok(isAgentPodError(error, code), String(error))
        assert.equal(error.message, 'Docker: no?[31m such thing')
        return true
      })
    }
    answer = says(versions, 500, { message: 'write /x: no space left on device' })
    await refused(daemon.json(PING, CALL), 'resource_exhausted', 'disk.full')
  })

  test('calls to the Docker daemon that hang, break or are aborted are unavailable or canceled', async () => {
    await daemon.json(PING, CALL)
    answer = () => undefined
    await refused(daemon.json(PING, { timeoutMs: 100 }), 'unavailable', 'docker.timeout')
    answer = (request) => request.socket.destroy()
    await refused(daemon.json(PING, CALL), 'unavailable', 'docker.lost')
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"a":')
      setTimeout(() => response.destroy(), 20)
    }
    await refused(daemon.json(PING, CALL), 'unavailable', 'docker.lost')
    answer = () => undefined
    const giveUp = new AbortController()
    setTimeout(() => giveUp.abort(), 50)
    await refused(daemon.json(PING, { ...CALL, signal: giveUp.signal }), 'canceled', 'canceled')
  })

  test('calls to the Docker daemon follow no redirect', async () => {
    await daemon.json(PING, CALL)
    for (const location of [`http://127.0.0.1:1/x`, '/v1.41/elsewhere', 'http:///', '::']) {
      answer = (_, response) => response.writeHead(301, { location }).end('{"message":"moved"}')
      await refused(daemon.json(PING, CALL), 'failed_precondition', 'docker.status_301')
    }
    assert.deepEqual(new Set(seen), new Set(['GET /version', 'GET /v1.41/thing']))
  })

  test('dockerode is not loaded before there is a daemon to call', async () => {
    const program = (host: string): string => `
      import { createRequire } from 'node:module'
      const { dockerProvider } = await import(${JSON.stringify(join(import.meta.dirname, '../provider.ts'))})
      const provider = dockerProvider({ env: { DOCKER_HOST: ${JSON.stringify(host)} }, poddFile: '/none', owner: 'test-owner' })
      provider.onExit(() => undefined)
      await provider.list('test-owner', { timeoutMs: 3000 }).catch(() => undefined)
      await provider.diagnose({ timeoutMs: 3000 })
      const loaded = Object.keys(createRequire(${JSON.stringify(import.meta.filename)}).cache)
      console.log(loaded.some((name) => name.includes('/dockerode/')))
      process.exit()`
    const said = async (host: string): Promise<string> =>
      (await run(process.execPath, ['--input-type=module', '-e', program(host)])).stdout.trim()
    assert.equal(await said(`unix://${directory}/none.sock`), 'false')
    assert.equal(await said(`unix://${socket}`), 'true', 'the control: a daemon that is there')
  })
})
