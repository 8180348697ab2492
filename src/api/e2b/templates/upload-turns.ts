/**
 * Lets a few uploads of one owner run at once; the others wait for their turn. E2B's SDKs upload the files of
 * all COPY steps at the same time.
 */
import { AgentPodError } from '../../../core/error.ts'

interface Owner {
  running: number
  readonly waiting: (() => void)[]
}

export class UploadTurns {
  readonly #atOnce: number
  readonly #mostWaiting: number
  readonly #owners = new Map<string, Owner>()

  /** SECURITY: CP-16. */
  constructor(o: { readonly atOnce: number; readonly mostWaiting: number }) {
    this.#atOnce = o.atOnce
    this.#mostWaiting = o.mostWaiting
  }

  /** Waits for a place. The returned function gives it to the next one; calling it again does nothing. */
  async enter(owner: string): Promise<() => void> {
    const own = this.#owners.get(owner) ?? { running: 0, waiting: [] }
    this.#owners.set(owner, own)
    if (own.running < this.#atOnce) own.running += 1
    else if (own.waiting.length >= this.#mostWaiting) throw tooMany(this.#mostWaiting)
    else await new Promise<void>((resolve) => own.waiting.push(resolve))
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      const next = own.waiting.shift()
      if (next) return next()
      own.running -= 1
      if (own.running === 0) this.#owners.delete(owner)
    }
  }
}

function tooMany(most: number): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'template.uploads',
    message: `this key already has ${most} uploads that wait`,
    hint: 'wait until some have finished',
    retry: { afterMs: 1000 },
  })
}
