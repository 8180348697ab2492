/** Long lists of sandboxes as JSON. */
import type { Sandbox } from '../../core/sandbox.ts'
import { sandboxView } from './sandbox-view.ts'

const [BEGIN, BETWEEN, END] = ['[', ',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer]

/**
 * A record never changes: a change makes a new one. So its bytes are made once, however often it is listed,
 * and go when the record does.
 */
export class SandboxListJson {
  readonly #known = new WeakMap<Sandbox, Buffer>()

  of(sandboxes: readonly Sandbox[]): Buffer<ArrayBuffer> {
    const parts = sandboxes.flatMap((sandbox, n) => [n === 0 ? BEGIN : BETWEEN, this.#bytes(sandbox)])
    return Buffer.concat(parts.length === 0 ? [BEGIN, END] : [...parts, END])
  }

  #bytes(sandbox: Sandbox): Buffer {
    const known = this.#known.get(sandbox)
    if (known !== undefined) return known
    const bytes = Buffer.from(JSON.stringify(sandboxView(sandbox)))
    this.#known.set(sandbox, bytes)
    return bytes
  }
}
