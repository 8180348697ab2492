/** Certificates for host names, signed by the authority of the sandbox when a name is first requested. */
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock } from '../../util/clock.ts'
import { systemRandom } from '../../util/random.ts'
import { makeCertificate } from '../../util/x509/certificate.ts'
import type { LinkAuthority } from '../control/link-spec.ts'

const MOST_KEPT = 256
/** Much shorter than the lifetime of the certificate. */
const KEPT_MS = 24 * 3_600_000

interface Leaf {
  readonly context: SecureContext
  readonly madeAt: number
}

export class LeafCertificates {
  readonly #clock: Clock
  readonly #kept = new WeakMap<LinkAuthority, Map<string, Leaf>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  context(authority: LinkAuthority, host: string): SecureContext {
    const leaves = this.#kept.get(authority) ?? new Map<string, Leaf>()
    this.#kept.set(authority, leaves)
    const known = leaves.get(host)
    if (known && this.#clock.now() - known.madeAt < KEPT_MS) return known.context
    if (leaves.size >= MOST_KEPT) leaves.delete(leaves.keys().next().value ?? host)
    const madeAt = this.#clock.now()
    const { cert, key } = makeCertificate(authority, [host], { now: madeAt, random: systemRandom })
    const context = createSecureContext({ cert: cert + authority.cert, key, minVersion: 'TLSv1.2' })
    leaves.set(host, { context, madeAt })
    return context
  }
}
