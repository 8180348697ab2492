/**
 * Certificate authorities of sandboxes. Making one takes a good part of the time of a create, so one is made
 * ahead.
 */
import { type Authority, type CertificateParts, makeSandboxAuthority } from '../../util/x509/certificate.ts'

export class Authorities {
  readonly #parts: () => CertificateParts
  #spare: Authority | undefined

  constructor(parts: () => CertificateParts) {
    this.#parts = parts
  }

  /** Returns an authority that no other sandbox has. */
  take(): Authority {
    const taken = this.#spare ?? this.#make()
    this.#spare = undefined
    setImmediate(() => {
      this.#spare ??= this.#make()
    }).unref()
    return taken
  }

  #make(): Authority {
    return makeSandboxAuthority(this.#parts(), 'AgentPod sandbox')
  }
}
