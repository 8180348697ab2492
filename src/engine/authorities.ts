/** Certificate authorities of sandboxes. Making one takes as long as a good part of a create, so one is made ahead. */
import { type Authority, type CertificateParts, makeSandboxAuthority } from '../util/certificate.ts'

export class Authorities {
  readonly #parts: () => CertificateParts
  #spare: Authority | undefined

  constructor(parts: () => CertificateParts) {
    this.#parts = parts
  }

  /** One that nobody else has or will have. */
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
