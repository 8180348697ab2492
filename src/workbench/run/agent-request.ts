/** What a front end asks of agents: who works, on what, and within which limits. */
import type { McpServer } from '../../agents/assignment.ts'
import type { NamedRule } from '../../agents/permissions/permissions.ts'
import type { RepositoryRequest } from '../copy/prepare-repository.ts'

export interface AgentRequest extends RepositoryRequest {
  /**
   * `claude`, or `codex:2` for two runs; `agent` is the default agent of the project's or the user's file.
   */
  readonly agents: readonly string[]
  readonly prompt: string
  readonly model?: string | undefined
  /** The most time, money and waiting for an answer that each run may use. */
  readonly timeMs?: number | undefined
  readonly maxCostUsd?: number | undefined
  readonly answerMs?: number | undefined
  readonly mcpServers?: readonly McpServer[] | undefined
  /** How branches are named. */
  readonly branch?: string | undefined
  /** How long the sandbox is kept after the run. */
  readonly keepMs?: number | undefined
  /** The model's address, if it is not the provider's. */
  readonly baseUrl?: string | undefined
  /** The command of an agent that takes one. */
  readonly command?: readonly string[] | undefined
  /** The command speaks ACP. */
  readonly isAcp?: boolean | undefined
  /** Ask before everything that the files allow. */
  readonly isAsking?: boolean | undefined
  /** Permissions on top of those in the files. */
  readonly permissions?: readonly NamedRule[] | undefined
}
