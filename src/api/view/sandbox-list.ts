/** Long lists of sandboxes as JSON. */
import type { Sandbox } from '../../core/sandbox.ts'
import { sandboxView } from './sandbox-view.ts'

/**
 * A record never changes: a change makes a new one. So its text is made once, however often it is listed, and
 * goes when the record does.
 */
export class SandboxListJson {
  readonly #texts = new WeakMap<Sandbox, string>()

  of(sandboxes: readonly Sandbox[]): string {
    return `[${sandboxes.map((sandbox) => this.#text(sandbox)).join()}]`
  }

  #text(sandbox: Sandbox): string {
    const known = this.#texts.get(sandbox)
    if (known !== undefined) return known
    const text = JSON.stringify(sandboxView(sandbox))
    this.#texts.set(sandbox, text)
    return text
  }
}
