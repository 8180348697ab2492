/** Codes that each open one subject, once, within a minute. */

import type { Clock } from '../../util/clock.ts'
import type { Random } from '../../util/random.ts'
import { sha256Hex } from '../../util/sha256.ts'

const LIVE_MS = 60_000
const MOST = 1000

export class OneTimeCodes {
  readonly #clock: Clock
  readonly #random: Random
  /** By hash, oldest first. */
  readonly #codes = new Map<string, { readonly subject: string; readonly until: number }>()

  constructor(parts: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = parts.clock
    this.#random = parts.random
  }

  issue(subject: string): string {
    const code = Buffer.from(this.#random.bytes(24)).toString('base64url')
    const oldest = this.#codes.keys().next()
    if (this.#codes.size >= MOST && !oldest.done) this.#codes.delete(oldest.value)
    this.#codes.set(sha256Hex(code), { subject, until: this.#clock.now() + LIVE_MS })
    return code
  }

  /** True once for a code of this subject. A code tried on another subject is used up as well. */
  redeem(code: string, subject: string): boolean {
    const key = sha256Hex(code)
    const found = this.#codes.get(key)
    this.#codes.delete(key)
    return found !== undefined && found.subject === subject && found.until > this.#clock.now()
  }
}
