/** How a build is asked for, and what it says on its way. */
import type { Principal } from '../core/principal.ts'

/** What a build says on its way. */
export type BuildEvent =
  | { readonly kind: 'progress'; readonly text: string }
  | {
      readonly kind: 'step'
      readonly name: string
      readonly title: string
      readonly number: number
      readonly of: number
      readonly state: 'cached' | 'started' | 'done'
      /** Of a step that is built: what made it necessary. */
      readonly why?: string | undefined
      readonly ms?: number | undefined
      readonly sizeBytes?: number | undefined
    }
  | { readonly kind: 'output'; readonly name: string; readonly data: Buffer }

export interface BuildOptions {
  /** What is built for: steps of one project are held against each other to say what changed. */
  readonly project: string
  readonly who: Principal
  /** Where it is built; the default provider when left out. */
  readonly provider?: string | undefined
  readonly signal: AbortSignal
  /** Keeps the sandbox of a step that fails, to look into; its id is in the error's details. */
  readonly keepFailed: boolean
  /** Builds the step of this name and those after it, although they are there. */
  readonly again?: string | undefined
  /** Whoever takes long over output holds the step back. */
  onEvent(event: BuildEvent): void | Promise<void>
}
