/** What a run is asked with. It is kept as it is, so that a follow-up next week, or another server, can go on with it. */
import type { AgentFile, McpServer } from '../agents/assignment.ts'
import type { Environment } from '../core/environment.ts'
import type { PermissionRules } from '../core/permission.ts'
import type { Principal } from '../core/principal.ts'
import type { Resources } from '../core/resources.ts'
import type { RunLimits, RunProject } from '../core/run.ts'
import type { Some } from '../core/some.ts'
import type { NetworkRequest } from '../engine/network.ts'

export interface RunPlan {
  /** Who asked, with what they may ask for at most. */
  readonly asker: Principal
  readonly agent: string
  readonly prompt: string
  readonly model?: string | undefined
  readonly group?: string | undefined
  readonly number: number
  /** A snapshot of a sandbox that holds the project. */
  readonly snapshot?: string | undefined
  readonly environment?: Some<Environment> | undefined
  readonly resources?: Some<Resources> | undefined
  readonly network?: NetworkRequest | undefined
  /** The variable of the way to pay that is used, as the agent lists it. */
  readonly credential?: string | undefined
  /** Of the model, where it is not the credential's own. */
  readonly baseUrl?: string | undefined
  /** The secret that the key is kept as. */
  readonly secret?: string | undefined
  /** Below the user's home; `PLACEHOLDER` in them becomes what stands for the key in this sandbox. */
  readonly files: readonly AgentFile[]
  readonly mcpServers: readonly McpServer[]
  /** Of an agent that is any command. */
  readonly command: readonly string[]
  readonly permissions: PermissionRules
  readonly limits: RunLimits
  readonly project?: RunProject | undefined
  /** How long the sandbox is kept when the run has ended. */
  readonly keepMs: number
}
