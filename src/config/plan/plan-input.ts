import type { Machine } from '../../bases/base-kind.ts'
import type { ServiceSettings } from '../compose/service-settings.ts'
import type { Detected } from '../detect/detect.ts'
import type { ProjectData } from '../project/data.ts'
import type { FoundBase } from '../project/found-base.ts'
import type { DevcontainerEnvironment } from './devcontainer/devcontainer-environment.ts'
import type { RegistryVersions } from './languages/registry-versions.ts'
import type { Lock } from './lock.ts'

/** The input of a plan. */
export interface PlanInput {
  /** The name of the project's directory. */
  readonly name: string
  readonly detected: Detected
  /** The content of agentpod.toml, reduced to what was granted. */
  readonly file?:
    | {
        readonly name: string
        readonly data: ProjectData
        lineOf(path: readonly string[]): number | undefined
      }
    | undefined
  readonly machine: Machine
  readonly lists: RegistryVersions
  /** Language versions that agentpod.lock pins, by name. */
  readonly pinned?: Readonly<Record<string, string>> | undefined
  /** The base in agentpod.lock. */
  readonly locked?: Pick<Lock['base'], 'name' | 'suite'> | undefined
  /** The base from the command line. */
  readonly base?: string | undefined
  /** The image from the command line. */
  readonly image?: string | undefined
  /** The base that a file other than agentpod.toml names, if the user has approved it. */
  readonly foundBase?: FoundBase | undefined
  /** The service of a compose file that the project is, if the user has approved the file. */
  readonly service?: ServiceSettings | undefined
  /** The project's devcontainer, if it has one and the user has approved it. */
  readonly devcontainer?: DevcontainerEnvironment | undefined
  /** The name of the image that the project's Dockerfile becomes. */
  readonly dockerfileImage?: string | undefined
}
