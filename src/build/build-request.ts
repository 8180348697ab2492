/** The options of a build, and its progress events. */
import type { Principal } from '../core/principal.ts'

/** Progress of a build. */
export type BuildEvent =
  | { readonly kind: 'progress'; readonly text: string }
  | {
      readonly kind: 'step'
      readonly name: string
      readonly title: string
      readonly number: number
      readonly of: number
      readonly state: 'cached' | 'started' | 'done'
      /** For a step that runs: why it was not cached. */
      readonly why?: string | undefined
      readonly ms?: number | undefined
      readonly sizeBytes?: number | undefined
    }
  | { readonly kind: 'output'; readonly name: string; readonly data: Buffer }

export interface BuildJob {
  /** The project: a step is compared with earlier builds of the same project to explain what changed. */
  readonly project: string
  readonly who: Principal
  /** The provider to build on; the default one when left out. */
  readonly provider?: string | undefined
  readonly signal: AbortSignal
  /** Keeps the sandbox of a step that fails, to look into; its id is in the error's details. */
  readonly keepFailed: boolean
  /** Rebuilds the step of this name and all steps after it, even if they are cached. */
  readonly again?: string | undefined
  /** A slow listener slows the step down. */
  onEvent(event: BuildEvent): void | Promise<void>
}
