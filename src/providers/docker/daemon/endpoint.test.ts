import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { findEndpoint, parseHost } from './endpoint.ts'

const home = mkdtempSync(join(tmpdir(), 'agentpod-docker-endpoint-'))
after(() => rmSync(home, { recursive: true }))

function write(path: string, content: unknown): void {
  const file = join(home, '.docker', path)
  mkdirSync(join(file, '..'), { recursive: true })
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
}

function writeContext(name: string, host: string): string {
  const directory = createHash('sha256').update(name).digest('hex')
  write(`contexts/meta/${directory}/meta.json`, {
    Name: name,
    Metadata: {},
    Endpoints: { docker: { Host: host } },
  })
  return directory
}

const refuses = (work: Promise<unknown>, words: RegExp): Promise<void> =>
  assert.rejects(work, (error) => isAgentPodError(error, 'failed_precondition') && words.test(error.message))

describe('the endpoint of Docker', () => {
  test('the Docker endpoint is the default socket when nothing is configured', async () => {
    const found = await findEndpoint({ HOME: join(home, 'nobody') })
    assert.deepEqual(found, { kind: 'unix', path: '/var/run/docker.sock', from: 'the default socket' })
  })

  test('DOCKER_HOST decides the Docker endpoint, before any context', async () => {
    const from = 'DOCKER_HOST'
    const found = (host: string, more = {}): Promise<unknown> =>
      findEndpoint({ HOME: home, DOCKER_CONTEXT: 'other', DOCKER_HOST: host, ...more })
    assert.deepEqual(await found('unix:///run/x.sock'), { kind: 'unix', path: '/run/x.sock', from })
    assert.deepEqual(await found('tcp://h:99'), { kind: 'tcp', host: 'h', port: 99, tls: undefined, from })
    assert.deepEqual(await found('tcp://[::1]:9'), {
      kind: 'tcp',
      host: '::1',
      port: 9,
      tls: undefined,
      from,
    })
    assert.deepEqual(await found('ssh://me@box:22'), { kind: 'ssh', target: 'me@box', port: 22, from })
    write('ca.pem', 'the CA')
    const tls = { ca: 'the CA', cert: undefined, key: undefined, verify: true }
    assert.deepEqual(await found('tcp://h', { DOCKER_TLS_VERIFY: '1' }), {
      kind: 'tcp',
      host: 'h',
      port: 2376,
      tls,
      from,
    })
  })

  test('the Docker endpoint comes from the context in DOCKER_CONTEXT or config.json, with its certificates', async () => {
    const directory = writeContext('far', 'tcp://far.example:7')
    for (const name of ['ca.pem', 'cert.pem', 'key.pem'])
      write(`contexts/tls/${directory}/docker/${name}`, name)
    const far = {
      kind: 'tcp',
      host: 'far.example',
      port: 7,
      tls: { ca: 'ca.pem', cert: 'cert.pem', key: 'key.pem', verify: true },
      from: 'the Docker context far',
    }
    assert.deepEqual(await findEndpoint({ HOME: home, DOCKER_CONTEXT: 'far' }), far)
    write('config.json', { currentContext: 'far', auths: {} })
    assert.deepEqual(await findEndpoint({ HOME: home }), far)
    const local = await findEndpoint({ HOME: home, DOCKER_CONTEXT: 'default' })
    assert.equal(local.kind, 'unix')
  })

  test('a malformed Docker endpoint is refused, and the error names its source', async () => {
    await refuses(findEndpoint({ HOME: home, DOCKER_CONTEXT: 'none' }), /Docker context none not found/)
    await refuses(findEndpoint({ HOME: home, DOCKER_CONTEXT: '../x' }), /malformed/)
    writeContext('odd', 'npipe:////./pipe/docker')
    await refuses(
      findEndpoint({ HOME: home, DOCKER_CONTEXT: 'odd' }),
      /context odd must begin with unix:\/\/, tcp:\/\/ or ssh:\/\//,
    )
    write('config.json', '{')
    await refuses(findEndpoint({ HOME: home }), /config.json is not JSON/)
  })

  for (const bad of [
    'x',
    'unix://relative',
    'tcp://h:port',
    'tcp://u:p@h',
    'tcp://h/path',
    'ssh://me:secret@h',
    'ssh://-oProxyCommand=x',
    'ssh://me@h/path',
    'http://h',
  ])
    test(`the Docker endpoint ${bad} is refused`, () => {
      assert.throws(
        () => parseHost(bad, 'DOCKER_HOST'),
        (error) => isAgentPodError(error) && error.reason === 'docker.endpoint',
      )
    })
})
