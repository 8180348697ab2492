/** The request of a run, stored unchanged, so that a follow-up or another server can continue it. */
import type { AgentFile, McpServer } from '../agents/assignment.ts'
import type { Environment } from '../core/environment.ts'
import type { PermissionRules } from '../core/permission.ts'
import type { Principal } from '../core/principal.ts'
import type { Resources } from '../core/resources.ts'
import type { RunLimits, RunProject } from '../core/run.ts'
import type { VolumeRequest } from '../core/volume/volume.ts'
import type { GroupPlace } from '../engine/groups/join-group.ts'
import type { NetworkRequest } from '../engine/network/network-spec.ts'
import type { Optional } from '../util/optional.ts'

export interface RunPlan {
  /** Who started the run, with the limits of their key. */
  readonly asker: Principal
  readonly agent: string
  readonly prompt: string
  readonly model?: string | undefined
  readonly group?: string | undefined
  readonly number: number
  /** A snapshot that contains the project. */
  readonly snapshot?: string | undefined
  readonly environment?: Optional<Environment> | undefined
  readonly resources?: Optional<Resources> | undefined
  /** Whether a Docker engine runs inside. */
  readonly docker?: boolean | undefined
  readonly network?: NetworkRequest | undefined
  readonly volumes?: readonly VolumeRequest[] | undefined
  /** The place in a group that its sandbox takes. */
  readonly place?: GroupPlace | undefined
  /** The variable of the chosen credential, as the agent lists it. */
  readonly credential?: string | undefined
  /** The base URL of the model, if it is not the one of the credential. */
  readonly baseUrl?: string | undefined
  /** The name of the secret that holds the key. */
  readonly secret?: string | undefined
  /**
   * Paths are relative to the user's home. `KEY_PLACEHOLDER` in a file becomes the placeholder of the key.
   */
  readonly files: readonly AgentFile[]
  readonly mcpServers: readonly McpServer[]
  /** The command of a custom agent. */
  readonly command: readonly string[]
  readonly permissions: PermissionRules
  readonly limits: RunLimits
  readonly project?: RunProject | undefined
  /** How long the sandbox is kept after the run has ended. */
  readonly keepMs: number
}
