/** A run: an agent working in a sandbox on a copy of a project. */
import type { SandboxId } from './id.ts'
import type { PermissionKind, PermissionRules } from './permission.ts'

/** The label that names the run of a sandbox. */
export const RUN_LABEL = 'agentpod/run'

/**
 * `queued`: waits because too many other runs are working. `waiting`: a question of the agent is open.
 * `finishing`: the agent has ended and its result is being taken. An ended run can continue with a follow-up
 * as long as its sandbox is kept.
 */
export const RUN_STATES = ['queued', 'starting', 'working', 'waiting', 'finishing', 'ended'] as const
export type RunState = (typeof RUN_STATES)[number]

/** How a run ended. `denied`: it changed nothing, and something it asked for was denied. */
export const OUTCOMES = [
  'changed',
  'unchanged',
  'denied',
  'failed',
  'timed_out',
  'over_budget',
  'canceled',
] as const
export type Outcome = (typeof OUTCOMES)[number]

/** Tokens as model providers count them. Cached tokens are in neither `input` nor `output`. */
export interface Tokens {
  readonly input: number
  readonly cached: number
  readonly output: number
}

/**
 * Model usage. The egress process counts it on the wire; the agent's own figures are used if it could not.
 */
export interface RunUsage extends Tokens {
  readonly requests: number
  /** Undefined if the price is unknown. */
  readonly costUsd?: number | undefined
  readonly source: 'wire' | 'agent' | 'none'
  readonly models: Readonly<Record<string, Tokens & { readonly costUsd: number | undefined }>>
}

/** The most runs in one list; older ones are left out. */
export const MOST_LISTED_RUNS = 200

export interface RunLimits {
  readonly timeMs: number
  /** Undefined means no limit. */
  readonly costUsd?: number | undefined
  /** How long a question stays open before it is denied. */
  readonly answerMs: number
}

/**
 * The project of a run, from which a branch is made later. The host knows both ids; the sandbox is not asked.
 */
export interface RunProject {
  /** The directory of the copy inside. */
  readonly workspace: string
  /** The start directory of the agent below it: where the user was. */
  readonly directory?: string | undefined
  /** The name of the directory, for people. */
  readonly name: string
  /** A digest of the path, to tell repositories of one user apart. */
  readonly key: string
  /** The commit it started from; undefined in a repository without commits. */
  readonly commit?: string | undefined
  /** The tree it started from, including uncommitted files. */
  readonly tree: string
  /** Directories inside that do not belong to the project. */
  readonly aside: readonly string[]
}

/** A tree made inside, as a pack that the client must check before using it. */
export interface RunResult {
  readonly tree: string
  readonly packBytes: number
  /** Files left out because they are too large, with their sizes. */
  readonly tooLarge: readonly { readonly path: string; readonly sizeBytes: number }[]
  /** Files left out for other reasons: names that git or a disk would refuse, or unreadable files. */
  readonly leftOut: readonly string[]
  /** Subjects of commits that the agent itself made. */
  readonly commits: readonly string[]
  readonly submodules: readonly string[]
}

export interface Run {
  readonly id: string
  readonly owner: string
  /** Runs that were started together have the same group. */
  readonly group?: string | undefined
  readonly agent: string
  /** The number among the runs of one agent on a project. */
  readonly number: number
  /** The number of prompts so far. */
  readonly turn: number
  readonly model?: string | undefined
  readonly prompt: string
  readonly state: RunState
  readonly outcome?: Outcome | undefined
  /** The reason of the outcome, in one sentence. */
  readonly reason?: string | undefined
  readonly sandboxId?: SandboxId | undefined
  /** The agent's id of its conversation. */
  readonly session?: string | undefined
  readonly project?: RunProject | undefined
  readonly result?: RunResult | undefined
  readonly usage: RunUsage
  /** The number of denied questions and refused hosts. */
  readonly denials: number
  readonly limits: RunLimits
  readonly permissions: PermissionRules
  readonly createdAt: number
  readonly endedAt?: number | undefined
  /** When the sandbox of an ended run is destroyed. */
  readonly keptUntil?: number | undefined
}

/** Kinds of tools, the same for every agent. */
export const TOOL_KINDS = [
  'read',
  'edit',
  'delete',
  'move',
  'search',
  'execute',
  'fetch',
  'think',
  'mcp',
  'other',
] as const
export type ToolKind = (typeof TOOL_KINDS)[number]

export type RunEventBody =
  | { readonly type: 'state'; readonly state: RunState; readonly outcome?: Outcome; readonly reason?: string }
  /** Parts with the same `message` belong together. */
  | {
      readonly type: 'message'
      readonly from: 'agent' | 'user'
      readonly message: string
      readonly text: string
    }
  | { readonly type: 'thought'; readonly message: string; readonly text: string }
  | {
      readonly type: 'plan'
      readonly entries: readonly { readonly text: string; readonly status: 'pending' | 'doing' | 'done' }[]
    }
  | {
      readonly type: 'tool'
      readonly tool: string
      readonly kind: ToolKind
      readonly title: string
      /** `running`: `output` is what was printed since the last event of the tool. */
      readonly status: 'started' | 'running' | 'done' | 'failed'
      readonly output?: string
    }
  /** A file that a tool changed, as reported by the agent. Only the branch is reliable. */
  | { readonly type: 'edit'; readonly path: string; readonly added: number; readonly removed: number }
  | {
      readonly type: 'command'
      readonly command: string
      readonly exitCode?: number
      readonly output?: string
    }
  | {
      readonly type: 'permission.asked'
      readonly permission: string
      readonly about: PermissionAbout
    }
  | {
      readonly type: 'permission.answered'
      readonly permission: string
      readonly about: PermissionAbout
      readonly answer: 'allow' | 'deny'
      readonly by: 'rule' | 'user' | 'timeout'
    }
  | {
      readonly type: 'network.denied'
      readonly host: string
      readonly port: number
      readonly reason: string
      readonly count: number
    }
  | { readonly type: 'usage'; readonly usage: RunUsage }
  | { readonly type: 'note'; readonly text: string }
  | { readonly type: 'error'; readonly text: string }

export interface PermissionAbout {
  readonly kind: PermissionKind
  /** The text that patterns are matched against: the command, the path, `server/tool`, `host:port`. */
  readonly subject: string
  readonly title: string
}

export interface RunEvent {
  readonly seq: number
  readonly at: number
  readonly runId: string
  readonly body: RunEventBody
}

export const NO_USAGE: RunUsage = {
  input: 0,
  cached: 0,
  output: 0,
  requests: 0,
  costUsd: undefined,
  source: 'none',
  models: {},
}
