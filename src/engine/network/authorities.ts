/**
 * Certificate authorities of sandboxes. Making one takes a good part of the time of a create, so a few are
 * made ahead, when no sandbox is being created.
 */
import { type Authority, type CertificateParts, makeSandboxAuthority } from '../../util/x509/certificate.ts'

const MOST_SPARE = 4
/** Longer than a create takes. */
const QUIET_MS = 25

export class Authorities {
  readonly #parts: () => CertificateParts
  readonly #spare: Authority[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(parts: () => CertificateParts) {
    this.#parts = parts
  }

  /** Returns an authority that no other sandbox has. */
  take(): Authority {
    this.#fillLater()
    return this.#spare.pop() ?? this.#make()
  }

  #fillLater(): void {
    this.#timer ??= setTimeout(() => this.#fill(), QUIET_MS).unref()
    this.#timer.refresh()
  }

  #fill(): void {
    if (this.#spare.length >= MOST_SPARE) return
    this.#spare.push(this.#make())
    // One at a time, so that a request in between does not wait for all of them.
    this.#fillLater()
  }

  #make(): Authority {
    return makeSandboxAuthority(this.#parts(), 'AgentPod sandbox')
  }
}
