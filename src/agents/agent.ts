/** What a coding agent is to us. One file an agent says all of it; nothing else knows their names. */
import type { Assignment, Credential, Launch } from './assignment.ts'
import type { Driver } from './driver.ts'

/** How it gets into a layer of its own, below `/var/lib/agentpod-<name>` and nowhere else, at versions that are pinned. */
export type Install =
  /** `node_modules` there. `node` is the version of Node that runs it; left out where it is a program of its own. */
  | {
      readonly kind: 'npm'
      /** With their versions; `{arch}` is the machine's architecture in Node's words, `{cpu}` in the kernel's. */
      readonly packages: readonly string[]
      readonly node?: string | undefined
      /** Programs that are linked below `bin`, by their paths below `node_modules`. */
      readonly programs?: Readonly<Record<string, string>> | undefined
    }
  /** A virtual environment there. */
  | { readonly kind: 'pip'; readonly packages: readonly string[] }
  /** It is there already, or brought by the project. */
  | { readonly kind: 'none' }

export interface Agent {
  readonly name: string
  readonly title: string
  /** Of commits: `Co-authored-by`. */
  readonly coAuthor: { readonly name: string; readonly email: string }
  readonly install: Install
  /** Hosts that it asks for by itself and can do without, such as for telemetry: that they are refused is nobody's news. */
  readonly chatter?: readonly string[] | undefined
  /** In the order they are looked for. */
  readonly credentials: readonly Credential[]
  readonly driver: Driver
  /** Whether it can be made to ask before it acts. Where it cannot, only `allow` may be asked for. */
  readonly canAsk: boolean
  /** Whether a conversation of it can go on in another process, by its session. */
  readonly canResume: boolean
  /** Whether MCP servers can be given to it. */
  readonly takesMcp: boolean
  /** False where a call of a tool does not say which server's it is. */
  readonly namesServers?: false | undefined
  launch(assignment: Assignment): Launch
  /** The same conversation on a terminal, for a person to take over. Undefined where it has no such thing. */
  interactive?(assignment: Assignment): Launch
}
