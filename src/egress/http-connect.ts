/** A connection to a site that requests may be sent on. */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  connect as connectTls,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import type { Address } from '../policy/address.ts'
import type { Site } from './http-target.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import { denied, failed } from './refusal.ts'
import { hostText } from './target.ts'

const TLS_MS = 15_000
const addresses = new WeakMap<Duplex, Address>()

/** The address that a connection made here was checked for and leads to. */
export function addressOf(stream: Duplex): Address | undefined {
  return addresses.get(stream)
}

/** Resolves once bytes can be written. The target must have been allowed. */
export async function connectSite(link: Link, site: Site, judgement: Judgement): Promise<Duplex> {
  const { spec } = link
  const { socket, address } = await link.reach(site.target, judgement)
  // SECURITY: I7. What was decided before the rules changed is not what they say now.
  if (link.spec !== spec) {
    socket.destroy()
    throw denied('policy.changed', 'the rules changed while this was being connected', 'try again')
  }
  // Node's client knows no half of a connection.
  socket.allowHalfOpen = false
  const stream = site.scheme === 'http' ? socket : await secured(socket, site, link.parts.trusted)
  if (address) addresses.set(stream, address)
  return stream
}

const contexts = new WeakMap<readonly string[], SecureContext>()

/** Reading hundreds of certificates takes longer than a handshake, so it is done once. */
function contextOf(trusted: readonly string[]): SecureContext {
  const known = contexts.get(trusted)
  if (known) return known
  const context = createSecureContext({ ca: [...rootCertificates, ...trusted], minVersion: 'TLSv1.2' })
  contexts.set(trusted, context)
  return context
}

/** SECURITY: the certificate is checked for the name that was decided upon, as any client would. */
function secured(socket: Socket, { target }: Site, trusted: readonly string[] = []): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      ...(target.kind === 'name' && { servername: target.host }),
      ...(target.kind === 'address' && { host: hostText(target) }),
      ALPNProtocols: ['http/1.1'],
      // SECURITY: whatever the environment of the process says.
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
          `TLS with ${hostText(target)} failed${why}`,
          'check the certificate of the server',
        ),
      )
    }
    tls.setTimeout(TLS_MS, () => fail(new Error('there was no answer in time')))
    tls.on('error', fail)
    tls.once('secureConnect', () => {
      tls.setTimeout(0)
      tls.off('error', fail)
      resolve(tls)
    })
  })
}
