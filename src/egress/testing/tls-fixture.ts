/**
 * A fixture with TLS: sites with certificates that the egress trusts, and clients that trust the sandbox's
 * authority.
 */

import type { RequestListener } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { createServer, type Server } from 'node:https'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { BoundSecret, SecretSlot } from '../../core/secret.ts'
import { systemClock } from '../../util/clock.ts'
import { systemRandom } from '../../util/random.ts'
import { makeCertificate, makeSandboxAuthority } from '../../util/x509/certificate.ts'
import type { LinkSpec } from '../control/link-spec.ts'
import type { PackageCache } from '../packages/cache.ts'
import { TlsInterceptor } from '../tls/intercept.ts'
import { EgressFixture, testPolicy } from './egress-fixture.ts'

const parts = { now: systemClock.now(), random: systemRandom }
export const SITE_AUTHORITY = makeSandboxAuthority(parts, 'authority of sites')
export const SANDBOX_AUTHORITY = makeSandboxAuthority(parts, 'authority of the sandbox')

export const HOST = 'api.example.com'
export const ADDRESS = '192.0.2.10'
export const VALUE = 'sk-real/value+0123456789'
export const TEST_PLACEHOLDER = 'agentpodplaceholder0123456789abcdefghijklmnop'

export function testSecret(slot: Partial<SecretSlot> = {}, o: Partial<BoundSecret> = {}): BoundSecret {
  return {
    name: 'KEY',
    placeholder: TEST_PLACEHOLDER,
    value: VALUE,
    slot: {
      hosts: [HOST],
      port: 443,
      header: 'authorization',
      scheme: { kind: 'prefix', prefix: 'Bearer' },
      ...slot,
    },
    ...o,
  }
}

export async function openTlsFixture(
  o: {
    readonly secrets?: readonly BoundSecret[]
    readonly rules?: readonly unknown[]
    readonly isAllOpened?: boolean
    readonly packages?: PackageCache
    readonly spec?: Partial<LinkSpec>
  } = {},
): Promise<EgressFixture> {
  return EgressFixture.open({
    policy: testPolicy(o.rules ?? [HOST, 'other.example.com', 'plain.example.com']),
    interceptor: new TlsInterceptor(systemClock),
    trusted: [SITE_AUTHORITY.cert],
    spec: {
      secrets: o.secrets ?? [testSecret()],
      authority: SANDBOX_AUTHORITY,
      intercept: o.isAllOpened ? 'all' : 'needed',
      ...o.spec,
    },
    ...(o.packages && { packages: o.packages }),
  })
}

/** A TLS site at a name and an address. */
export async function site(
  stage: EgressFixture,
  listener: RequestListener,
  o: { readonly host?: string; readonly address?: string } = {},
): Promise<Server> {
  const { host = HOST, address = ADDRESS } = o
  const server = createServer(makeCertificate(SITE_AUTHORITY, [host], parts), listener)
  stage.name(host, [address])
  await stage.place(address, 443, server)
  return server
}

/** A client inside that connects directly, without a proxy. */
export async function secureClient(
  stage: EgressFixture,
  o: { readonly host?: string; readonly protocols?: string[]; readonly ca?: string } = {},
): Promise<TLSSocket> {
  const { host = HOST, protocols = ['http/1.1'], ca = SANDBOX_AUTHORITY.cert } = o
  const socket = await stage.podd.direct({ name: host, port: 443 })
  const tls = connectTls({ socket, servername: host, ca, ALPNProtocols: protocols })
  await new Promise<void>((resolve, reject) => {
    tls.once('secureConnect', resolve)
    tls.once('error', reject)
  })
  return tls
}

export async function http2Client(stage: EgressFixture, host = HOST): Promise<ClientHttp2Session> {
  const tls = await secureClient(stage, { host, protocols: ['h2'] })
  return connectHttp2(`https://${host}`, { createConnection: () => tls })
}

/** Sends raw bytes and returns the response. */
export async function sendRaw(tls: TLSSocket, bytes: string | Buffer): Promise<string> {
  let text = ''
  tls.setEncoding('latin1')
  tls.on('data', (chunk: string) => {
    text += chunk
  })
  tls.on('error', () => undefined)
  tls.write(bytes)
  await new Promise<void>((resolve) => {
    tls.once('close', () => resolve())
    tls.once('end', () => resolve())
  })
  tls.destroy()
  return text
}

export function get(path: string, headers: Readonly<Record<string, string>> = {}, host = HOST): string {
  const lines = Object.entries({ Host: host, Connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

export function post(
  body: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
  host = HOST,
): Buffer {
  const bytes = Buffer.from(body)
  const all = { Host: host, Connection: 'close', 'Content-Length': String(bytes.length), ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`POST /echo HTTP/1.1\r\n${lines.join('')}\r\n`), bytes])
}
