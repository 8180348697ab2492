import type { CreateOptions } from '../client/sandbox.ts'
import type { Verb } from '../config/detect/finding.ts'
import type { NetworkWish } from '../config/network-table.ts'

/** An environment that is built. */
export interface ReadyEnvironment {
  readonly user: string
  /** Directories of the project that it brings itself. */
  readonly aside: readonly string[]
  readonly wish: NetworkWish
  readonly commands: Readonly<Record<Verb, readonly { readonly directory: string; readonly run: string }[]>>
  readonly ports: readonly { readonly port: number; readonly label: string | undefined }[]
  /** Whether something waits for the project's files. */
  readonly begins: boolean
  /** What was asked for on the command line goes before what the environment says. */
  apply(options: CreateOptions): CreateOptions
}
