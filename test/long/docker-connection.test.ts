/** Ways to a Docker daemon, and from it to a registry. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect, createServer as createTlsLess } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { isAgentPodError } from '../../src/core/error.ts'
import type { Provider } from '../../src/core/provider.ts'
import { dockerProvider } from '../../src/providers/docker/provider.ts'
import { rejectsWith } from '../../src/testing/contract-context.ts'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { type DockerStage, openDocker, PODD } from '../support/docker-provider.ts'

const CALL = { timeoutMs: 60_000 }

describe('connections to Docker', { skip: NO_DOCKER, timeout: 300_000 }, () => {
  let stage: DockerStage
  const opened: Provider[] = []
  const closers: (() => void)[] = []

  before(async () => {
    stage = await openDocker()
  })

  after(async () => {
    for (const provider of opened) provider.close()
    for (const close of closers) close()
    await stage?.close()
  })

  const on = (env: Record<string, string>): Provider => {
    const provider = dockerProvider({
      env: { ...stage.daemon.env, ...env },
      poddFile: PODD,
      owner: stage.owner,
    })
    opened.push(provider)
    return provider
  }

  /** Carries bytes to the daemon's socket. */
  const carry = (socket: import('node:stream').Duplex): void => {
    const daemon = connect(stage.daemon.socket)
    socket.pipe(daemon).pipe(socket)
    for (const one of [socket, daemon]) one.on('error', () => one.destroy())
  }

  const listening = async (server: ReturnType<typeof createTlsLess>): Promise<number> => {
    closers.push(() => server.close())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as { port: number }).port
  }

  test('Docker over tcp:// works, and its diagnosis says that nothing is encrypted', async () => {
    const port = await listening(createTlsLess(carry))
    const provider = on({ DOCKER_HOST: `tcp://127.0.0.1:${port}` })
    assert.ok((await provider.capabilities(CALL)).layers)
    const checks = await provider.diagnose(CALL)
    assert.match(
      checks.find(({ name }) => name === 'docker transport')?.detail ?? '',
      /not encrypted and the daemon is not verified/,
    )
  })

  test('Docker over tcp:// with TLS needs the daemon’s certificate to be the trusted one', async () => {
    const certs = join(stage.daemon.directory, 'certs')
    mkdirSync(certs)
    const openssl = (...args: string[]): void =>
      void execFileSync('openssl', args, { cwd: certs, stdio: 'ignore' })
    const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
    openssl(
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      'server.key',
      '-out',
      'ca.pem',
      '-days',
      '2',
      ...subject,
    )
    const identity = {
      key: readFileSync(join(certs, 'server.key')),
      cert: readFileSync(join(certs, 'ca.pem')),
    }
    const port = await listening(createTlsServer(identity, carry))
    const env = { DOCKER_HOST: `tcp://127.0.0.1:${port}`, DOCKER_TLS_VERIFY: '1' }
    assert.ok((await on({ ...env, DOCKER_CERT_PATH: certs }).capabilities(CALL)).layers)
    const empty = join(stage.daemon.directory, 'no-certs')
    mkdirSync(empty)
    await rejectsWith(on({ ...env, DOCKER_CERT_PATH: empty }).capabilities(CALL), 'unavailable')
  })

  test('Docker over ssh:// runs the ssh program with the host as it was named', async () => {
    const bin = join(stage.daemon.directory, 'ssh-bin')
    mkdirSync(bin)
    const log = join(bin, 'log')
    // Stands for ssh: it does at once what ssh does on the other machine.
    writeFileSync(
      join(bin, 'ssh'),
      `#!/bin/sh\nprintf '%s\\n' "$*" >> ${log}\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nDOCKER_HOST=unix://${stage.daemon.socket} exec "$@"\n`,
    )
    chmodSync(join(bin, 'ssh'), 0o755)
    const PATH = `${bin}:${stage.daemon.env['PATH']}`
    const provider = on({ PATH, DOCKER_HOST: 'ssh://me@far.example:2222' })
    assert.ok((await provider.capabilities(CALL)).layers)
    assert.match(readFileSync(log, 'utf8'), /-p 2222 -- me@far\.example docker system dial-stdio/)
    await rejectsWith(on({ PATH: '/nowhere', DOCKER_HOST: 'ssh://far' }).capabilities(CALL), 'unavailable')
  })

  describe('images of a registry', () => {
    let registry: Registry
    let config: string

    before(async () => {
      registry = await Registry.open('me', 'secret')
      closers.push(() => registry.close())
      config = join(stage.daemon.directory, 'config')
      mkdirSync(config)
    })

    test('images of a private registry are pulled once, with the credentials of config.json', async () => {
      const { images } = on({ DOCKER_CONFIG: config })
      assert.ok(images)
      const ref = `${registry.host}/team/tool:1`
      await assert.rejects(
        images.ensure(ref, () => undefined, CALL),
        (error) => isAgentPodError(error, 'unavailable') && /docker login/.test(error.hint ?? ''),
      )
      const auth = Buffer.from('me:secret').toString('base64')
      writeFileSync(join(config, 'config.json'), JSON.stringify({ auths: { [registry.host]: { auth } } }))
      const lines: string[] = []
      const image = await images.ensure(ref, (line) => lines.push(line), CALL)
      assert.deepEqual(image.env['TOOL'], 'here')
      assert.equal(image.user, '1000')
      assert.match(image.digest, /^sha256:[0-9a-f]{64}$/)
      assert.ok(lines.length > 1)
      const before = registry.asked
      assert.deepEqual((await images.ensure(ref, () => undefined, CALL)).root, image.root)
      assert.equal(registry.asked, before, 'what is there is not asked for again')
    })

    test('images of a private registry are pulled with the answer of a credential helper', async () => {
      const bin = join(stage.daemon.directory, 'helper-bin')
      mkdirSync(bin)
      const helper = join(bin, 'docker-credential-test')
      writeFileSync(
        helper,
        `#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = ${registry.host} ] && echo '{"ServerURL":"x","Username":"me","Secret":"secret"}'\n`,
      )
      chmodSync(helper, 0o755)
      writeFileSync(join(config, 'config.json'), JSON.stringify({ credHelpers: { [registry.host]: 'test' } }))
      const { images } = on({ DOCKER_CONFIG: config, PATH: `${bin}:${stage.daemon.env['PATH']}` })
      assert.ok(images)
      assert.equal(
        (await images.ensure(`${registry.host}/team/other:1`, () => undefined, CALL)).env['TOOL'],
        'here',
      )
    })

    test('missing images of a registry are reported by name, and invalid names are refused', async () => {
      const auth = Buffer.from('me:secret').toString('base64')
      writeFileSync(join(config, 'config.json'), JSON.stringify({ auths: { [registry.host]: { auth } } }))
      const { images } = on({ DOCKER_CONFIG: config })
      assert.ok(images)
      await rejectsWith(
        images.ensure(`${registry.host}/team/absent:1`, () => undefined, CALL),
        'not_found',
        'image.unknown',
      )
      await rejectsWith(
        images.ensure(`sha256:${'0'.repeat(64)}`, () => undefined, CALL),
        'not_found',
        'image.unknown',
      )
      for (const bad of ['', 'UPPER', '-x', 'a b', '../x', 'x:', `x@sha256:1`])
        await rejectsWith(
          images.ensure(bad, () => undefined, CALL),
          'invalid_argument',
          'image.malformed',
        )
    })
  })
})

/** As much of a registry as a pull needs: one image under any name but `absent`, for one user. */
class Registry {
  readonly host: string
  readonly #server: Server
  asked = 0

  private constructor(server: Server) {
    this.#server = server
    this.host = `127.0.0.1:${(server.address() as { port: number }).port}`
  }

  static async open(user: string, password: string): Promise<Registry> {
    const tar = execFileSync('tar', ['-C', '/etc', '-cf', '-', 'os-release', '--dereference'])
    const layer = gzipSync(tar)
    const config = Buffer.from(
      JSON.stringify({
        architecture: process.arch === 'x64' ? 'amd64' : process.arch,
        os: 'linux',
        config: { Env: ['TOOL=here'], User: '1000' },
        rootfs: { type: 'layers', diff_ids: [sha256(tar)] },
      }),
    )
    const kind = (name: string): string => `application/vnd.docker.${name}`
    const manifest = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: kind('distribution.manifest.v2+json'),
        config: { mediaType: kind('container.image.v1+json'), size: config.length, digest: sha256(config) },
        layers: [
          { mediaType: kind('image.rootfs.diff.tar.gzip'), size: layer.length, digest: sha256(layer) },
        ],
      }),
    )
    const blobs = new Map([layer, config].map((blob) => [sha256(blob), blob]))
    const wanted = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    let registry: Registry | undefined
    const server = createServer((request, response) => {
      if (registry) registry.asked += 1
      const send = (status: number, body: Buffer | string, type = 'application/json'): void => {
        response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
        response.end(request.method === 'HEAD' ? undefined : body)
      }
      if (request.headers.authorization !== wanted) {
        response.setHeader('www-authenticate', 'Basic realm="test"')
        return send(401, '{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}')
      }
      const path = request.url ?? ''
      const blob = blobs.get(path.split('/blobs/')[1] ?? '')
      if (path === '/v2/') return send(200, '{}')
      if (blob) return send(200, blob, 'application/octet-stream')
      if (!path.includes('/absent/') && path.includes('/manifests/')) {
        response.setHeader('docker-content-digest', sha256(manifest))
        return send(200, manifest, kind('distribution.manifest.v2+json'))
      }
      send(404, '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    registry = new Registry(server)
    return registry
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
