import type { CreateOptions } from '../../client/sandbox.ts'
import type { Verb } from '../../config/detect/finding.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'

/** A built environment, and what a front end needs to start sandboxes with it. */
export interface ReadyEnvironment {
  readonly user: string
  /** Directories of the project that the environment provides, such as installed dependencies. */
  readonly generated: readonly string[]
  readonly wish: NetworkWish
  readonly commands: Readonly<Record<Verb, readonly { readonly directory: string; readonly run: string }[]>>
  readonly ports: readonly { readonly port: number; readonly label: string | undefined }[]
  /** Whether services or a start command wait for the project's files. */
  readonly begins: boolean
  /** Adds the environment to the options of a sandbox; a value in the options goes first. */
  apply(options: CreateOptions): CreateOptions
}
