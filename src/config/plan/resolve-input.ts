import type { Machine } from '../../bases/kind.ts'
import type { Detected } from '../detect/detect.ts'
import type { ProjectData } from '../project/data.ts'
import type { Listings } from './listings.ts'
import type { Lock } from './lock.ts'

/** Everything that a plan is made of. */
export interface ResolveInput {
  /** The name of the project's directory. */
  readonly name: string
  readonly detected: Detected
  /** What agentpod.toml says, of which only what was granted is left. */
  readonly file?:
    | {
        readonly name: string
        readonly data: ProjectData
        lineOf(path: readonly string[]): number | undefined
      }
    | undefined
  readonly machine: Machine
  readonly lists: Listings
  /** What agentpod.lock pins: versions of languages, by name. */
  readonly pinned?: Readonly<Record<string, string>> | undefined
  /** The base that agentpod.lock was made on. */
  readonly locked?: Pick<Lock['base'], 'name' | 'suite'> | undefined
  /** A base that was asked for on the command line. */
  readonly base?: string | undefined
  /** An image that was asked for on the command line. */
  readonly image?: string | undefined
}
