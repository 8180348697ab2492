/** What AgentPod knows about a coding agent. One file per agent declares all of it. */
import type { Assignment, Credential, Launch } from './assignment.ts'
import type { Driver } from './drivers/driver.ts'

/** How an agent is installed into its own layer, below `/var/lib/agentpod-<name>`, at pinned versions. */
export type Install =
  /** Into `node_modules`. `node` is the version of Node that runs it; absent if it is a native program. */
  | {
      readonly kind: 'npm'
      /** With versions; `{arch}` is the architecture as Node names it, `{cpu}` as the kernel does. */
      readonly packages: readonly string[]
      readonly node?: string | undefined
      /** Programs to link into `bin`, with their paths below `node_modules`. */
      readonly programs?: Readonly<Record<string, string>> | undefined
    }
  /** Into a virtual environment. */
  | { readonly kind: 'pip'; readonly packages: readonly string[] }
  /** Nothing to install: the project or the user provides it. */
  | { readonly kind: 'none' }

export interface Agent {
  readonly name: string
  /** Other names that people use for it. */
  readonly aliases?: readonly string[] | undefined
  readonly title: string
  /** For `Co-authored-by` in commits. */
  readonly coAuthor: { readonly name: string; readonly email: string }
  readonly install: Install
  /** Hosts it contacts on its own, such as telemetry. Refusals for these are not reported to the user. */
  readonly chatter?: readonly string[] | undefined
  /** In order of preference. */
  readonly credentials: readonly Credential[]
  readonly driver: Driver
  /** Whether it can be made to ask before it acts. If not, only `allow` rules are accepted. */
  readonly canAsk: boolean
  /** Whether another process can resume its conversation, by the session's id. */
  readonly canResume: boolean
  /** Whether it supports MCP servers. */
  readonly takesMcp: boolean
  /** False if a tool call does not say which server the tool belongs to. */
  readonly namesServers?: false | undefined
  /** Whether the user gives the command that is run, with `--agent-command`. */
  readonly takesCommand?: true | undefined
  /** Name of the agent that runs the same command over the Agent Client Protocol. */
  readonly acpVariant?: string | undefined
  launch(assignment: Assignment): Launch
  /**
   * The same conversation on a terminal, for a person to take over. Undefined if the agent has no terminal
   * UI.
   */
  interactive?(assignment: Assignment): Launch
}
