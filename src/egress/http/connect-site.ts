/** Opens a connection to a site, for requests. */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  connect as connectTls,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import type { Address } from '../../policy/address.ts'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import { hostText } from '../destination.ts'
import { denied, failed } from '../refusal.ts'
import type { Site } from './request-target.ts'

const TLS_MS = 15_000
const addresses = new WeakMap<Duplex, Address>()

/** The checked address that a connection opened here leads to. */
export function addressOf(stream: Duplex): Address | undefined {
  return addresses.get(stream)
}

/** Resolves when bytes can be written. The caller must have checked that the destination is allowed. */
export async function connectSite(sandbox: SandboxEgress, site: Site, judgement: Judgement): Promise<Duplex> {
  const { spec } = sandbox
  const { socket, address } = await sandbox.connect(site.destination, judgement)
  // SECURITY: I7. The decision was made under the old rules.
  if (sandbox.spec !== spec) {
    socket.destroy()
    throw denied('policy.changed', 'the network rules changed while connecting', 'try again')
  }
  // Node's HTTP client does not support half-open connections.
  socket.allowHalfOpen = false
  const stream = site.scheme === 'http' ? socket : await secured(socket, site, sandbox.parts.trusted)
  if (address) addresses.set(stream, address)
  return stream
}

const contexts = new WeakMap<readonly string[], SecureContext>()

/** Parsing hundreds of certificates takes longer than a handshake, so it is done once. */
function contextOf(trusted: readonly string[]): SecureContext {
  const known = contexts.get(trusted)
  if (known) return known
  const context = createSecureContext({ ca: [...rootCertificates, ...trusted], minVersion: 'TLSv1.2' })
  contexts.set(trusted, context)
  return context
}

/** SECURITY: the certificate is verified for the name that the policy allowed. */
function secured(socket: Socket, { destination }: Site, trusted: readonly string[] = []): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      ...(destination.kind === 'name' && { servername: destination.host }),
      ...(destination.kind === 'address' && { host: hostText(destination) }),
      ALPNProtocols: ['http/1.1'],
      // SECURITY: set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED has no effect.
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(trusted.length > 0 && { secureContext: contextOf(trusted) }),
    })
    const fail = (error: NodeJS.ErrnoException): void => {
      tls.destroy()
      const why = error.code ? ` (${String(error.code).replace(/[^\w-]/g, '')})` : ''
      reject(
        failed(
          'upstream.tls',
          `TLS with ${hostText(destination)} failed${why}`,
          'check the certificate of the server',
        ),
      )
    }
    tls.setTimeout(TLS_MS, () => fail(new Error('the server did not answer in time')))
    tls.on('error', fail)
    tls.once('secureConnect', () => {
      tls.setTimeout(0)
      tls.off('error', fail)
      resolve(tls)
    })
  })
}
