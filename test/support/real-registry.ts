/**
 * The registry server of the CNCF's distribution project, with TLS, and tokens from a service on another
 * port. It is built from its Go module once, into .cache/.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createSign, randomUUID, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:https'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Blob, MadeImage } from './made-image.ts'
import { ROOT } from './world.ts'

const VERSION = 'v3.1.2'
const MODULE = 'github.com/distribution/distribution/v3'
const PROGRAM = join(ROOT, '.cache', 'registry', VERSION, 'registry')
const START_MS = 20_000

/** Why this machine cannot run one, or false. Builds the program, which takes minutes the first time. */
export function noRegistry(): string | false {
  if (existsSync(PROGRAM)) return false
  const made = join(ROOT, '.cache', 'registry', `.new-${process.pid}`)
  try {
    mkdirSync(made, { recursive: true })
    execFileSync('go', ['install', '-p', '2', `${MODULE}/cmd/registry@${VERSION}`], {
      env: { ...process.env, GOBIN: made, GOFLAGS: '-mod=mod' },
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: '/',
    })
    mkdirSync(join(PROGRAM, '..'), { recursive: true })
    renameSync(join(made, 'registry'), PROGRAM)
    return false
  } catch (error) {
    return `the registry server could not be built: ${String(error).split('\n')[0]}`
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

export const CREDENTIAL = { username: 'robot', password: 'sesame-4711' }

interface Access {
  readonly type: string
  readonly name: string
  readonly actions: readonly string[]
}

export class RealRegistry implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'agentpod-registry-'))
  #child: ChildProcess | undefined
  #tokens: Server | undefined
  #port = 0
  #tokenPort = 0
  /** How long tokens are valid. */
  tokenSeconds = 300
  /** Authorization headers that the token service saw. */
  readonly seen: string[] = []

  static async start(): Promise<RealRegistry> {
    const registry = new RealRegistry()
    try {
      await registry.#start()
    } catch (error) {
      await registry[Symbol.asyncDispose]()
      throw error
    }
    return registry
  }

  /** HOST:PORT, as in a reference. The token service is at another name and port. */
  get host(): string {
    return `127.0.0.1:${this.#port}`
  }

  /** The certificate authority of both. */
  get caFile(): string {
    return join(this.directory, 'ca.pem')
  }

  /** What ~/.docker/config.json has after `docker login`. */
  get dockerConfig(): string {
    const auth = Buffer.from(`${CREDENTIAL.username}:${CREDENTIAL.password}`).toString('base64')
    return JSON.stringify({ auths: { [this.host]: { auth } } })
  }

  async #start(): Promise<void> {
    const at = (name: string): string => join(this.directory, name)
    makeCertificates(this.directory)
    this.#port = await freePort()
    const tls = { key: readFileSync(at('server.key')), cert: readFileSync(at('server.pem')) }
    const tokens = createServer(tls, (asked, response) => {
      const url = new URL(asked.url ?? '/', 'https://tokens')
      this.seen.push(asked.headers.authorization ?? '')
      const wanted = `Basic ${Buffer.from(`${CREDENTIAL.username}:${CREDENTIAL.password}`).toString('base64')}`
      const isKnown = asked.headers.authorization === wanted
      if (asked.headers.authorization !== undefined && !isKnown) return void response.writeHead(401).end('{}')
      const access = url.searchParams
        .getAll('scope')
        .flatMap((scope) => scope.split(' '))
        .map(accessOf)
        .map((one) => ({ ...one, actions: allowed(one, isKnown) }))
        .filter(({ actions }) => actions.length > 0)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ token: this.token(access), expires_in: this.tokenSeconds }))
    })
    await new Promise<void>((resolve) => tokens.listen(0, '127.0.0.1', resolve))
    this.#tokens = tokens
    this.#tokenPort = (tokens.address() as AddressInfo).port
    writeFileSync(at('config.yml'), this.#config())
    this.#child = spawn(PROGRAM, ['serve', at('config.yml')], {
      stdio: 'ignore',
      env: { PATH: process.env['PATH'] ?? '', OTEL_TRACES_EXPORTER: 'none' },
    })
    const deadline = Date.now() + START_MS
    while (
      !(await this.call('GET', '/v2/').then(
        () => true,
        () => false,
      ))
    ) {
      if (Date.now() > deadline || this.#child.exitCode !== null)
        throw new Error('the registry does not answer')
      await sleep(50)
    }
  }

  #config(): string {
    const at = (name: string): string => join(this.directory, name)
    return `version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: ${at('data')}}, delete: {enabled: true}}
http:
  addr: 127.0.0.1:${this.#port}
  tls: {certificate: ${at('server.pem')}, key: ${at('server.key')}}
auth:
  token:
    realm: https://localhost:${this.#tokenPort}/token
    service: registry
    issuer: tests
    rootcertbundle: ${at('server.pem')}
`
  }

  /** A token as the service signs it. */
  token(access: readonly Access[]): string {
    const now = Math.floor(Date.now() / 1000)
    const cert = new X509Certificate(readFileSync(join(this.directory, 'server.pem')))
    const header = { alg: 'RS256', typ: 'JWT', x5c: [cert.raw.toString('base64')] }
    const claims = {
      iss: 'tests',
      sub: CREDENTIAL.username,
      aud: 'registry',
      exp: now + this.tokenSeconds,
      nbf: now - 60,
      iat: now,
      jti: randomUUID(),
      access,
    }
    const text = [header, claims]
      .map((one) => Buffer.from(JSON.stringify(one)).toString('base64url'))
      .join('.')
    const signed = createSign('RSA-SHA256')
      .update(text)
      .sign(readFileSync(join(this.directory, 'server.key')))
    return `${text}.${signed.toString('base64url')}`
  }

  /** Puts an image into the registry, as `docker push` does. */
  async put(name: string, tag: string, image: MadeImage): Promise<string> {
    for (const blob of image.blobs) await this.putBlob(name, blob)
    await this.putManifest(name, tag, image.manifest)
    return `${this.host}/${name}:${tag}`
  }

  async putManifest(name: string, tag: string, manifest: Blob): Promise<void> {
    const headers = { 'content-type': manifest.mediaType }
    const { status, body } = await this.#push(
      name,
      'PUT',
      `/v2/${name}/manifests/${tag}`,
      headers,
      manifest.data,
    )
    if (status !== 201) throw new Error(`the registry refuses a manifest: ${body}`)
  }

  async putBlob(name: string, blob: Blob): Promise<void> {
    const { location } = await this.#push(name, 'POST', `/v2/${name}/blobs/uploads/`)
    const url = new URL(location, `https://${this.host}`)
    url.searchParams.set('digest', blob.digest)
    const headers = { 'content-type': 'application/octet-stream' }
    const { status, body } = await this.#push(name, 'PUT', `${url.pathname}${url.search}`, headers, blob.data)
    if (status !== 201) throw new Error(`the registry refuses a blob: ${body}`)
  }

  #push(
    name: string,
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    data?: Buffer,
  ): Promise<Answer> {
    const token = this.token([{ type: 'repository', name, actions: ['pull', 'push'] }])
    return this.call(method, path, { ...headers, authorization: `Bearer ${token}` }, data)
  }

  call(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    data?: Buffer,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          host: '127.0.0.1',
          port: this.#port,
          method,
          path,
          headers: { ...headers, 'content-length': data?.length ?? 0 },
          ca: readFileSync(this.caFile),
        },
        async (response) => {
          const parts: Buffer[] = []
          for await (const part of response) parts.push(part as Buffer)
          const body = Buffer.concat(parts).toString('utf8')
          resolve({ status: response.statusCode ?? 0, location: response.headers.location ?? '', body })
        },
      )
      asked.once('error', reject)
      asked.end(data)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child
    if (child && child.exitCode === null) {
      const ended = new Promise((resolve) => child.once('close', resolve))
      child.kill('SIGKILL')
      await ended
    }
    this.#tokens?.closeAllConnections()
    this.#tokens?.close()
    rmSync(this.directory, { recursive: true, force: true })
  }
}

interface Answer {
  readonly status: number
  readonly location: string
  readonly body: string
}

/** `public/` can be read by anybody; everything else needs the credential. */
function allowed({ name, actions }: Access, isKnown: boolean): readonly string[] {
  if (isKnown) return actions
  return name.startsWith('public/') ? actions.filter((one) => one === 'pull') : []
}

function accessOf(scope: string): Access {
  const [type = '', name = '', actions = ''] = scope.split(':')
  return { type, name, actions: actions.split(',') }
}

function makeCertificates(directory: string): void {
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' })
  }
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1'
  const days = ['-days', '2', '-nodes', '-newkey', 'rsa:2048']
  openssl('req', '-x509', ...days, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=tests')
  openssl('req', ...days.slice(2), '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=registry')
  writeFileSync(join(directory, 'names'), names)
  openssl(
    ...['x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'],
    ...['-days', '2', '-extfile', 'names', '-out', 'server.pem'],
  )
}

async function freePort(): Promise<number> {
  const server = createTcp()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
