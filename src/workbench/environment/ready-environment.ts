import type { CreateOptions } from '../../client/sandbox.ts'
import type { Verb } from '../../config/detect/finding.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import type { AddonName } from '../../config/project/addons-table.ts'
import type { ProjectCompose } from '../compose/project-compose.ts'
import type { Prebuild } from '../devcontainer/lifecycle-scripts.ts'
import type { SaidEphemeral } from './place-ephemeral.ts'

/** A built environment, and what a front end needs to start sandboxes with it. */
export interface ReadyEnvironment {
  readonly user: string
  /** The directory of the project's copy, if the environment names one. */
  readonly workspace?: string | undefined
  /** Commands that prepare the copy. */
  readonly prebuild?: Prebuild | undefined
  /** Directories of the project that the environment provides, such as installed dependencies. */
  readonly generated: readonly string[]
  /** Directories that are never kept, as the project's files name them. */
  readonly ephemeral: readonly SaidEphemeral[]
  readonly wish: NetworkWish
  readonly commands: Readonly<Record<Verb, readonly { readonly directory: string; readonly run: string }[]>>
  readonly ports: readonly { readonly port: number; readonly label: string | undefined }[]
  /** Programs for a person in the browser. Their ports are private. */
  readonly addons: readonly { readonly name: AddonName; readonly port: number }[]
  /** Whether services or a start command wait for the project's files. */
  readonly begins: boolean
  /** The services of the project's compose file, which run as a group with its sandbox. */
  readonly compose?: ProjectCompose | undefined
  /** Adds the environment to the options of a sandbox; a value in the options goes first. */
  apply(options: CreateOptions): CreateOptions
}
