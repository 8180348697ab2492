/** An agent at work in a sandbox, on a copy of a project. */
import type { SandboxId } from './id.ts'
import type { PermissionKind, PermissionRules } from './permission.ts'

/**
 * `queued`: others are at work and the machine has no room yet. `waiting`: a question of the agent is unanswered. `finishing`: the agent has ended and its result is being taken. A run that has ended
 * may go on with a follow-up as long as its sandbox is kept.
 */
export const RUN_STATES = ['queued', 'starting', 'working', 'waiting', 'finishing', 'ended'] as const
export type RunState = (typeof RUN_STATES)[number]

/** How a run ended. `denied`: nothing came of it, and something it asked for was refused. */
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

/** Tokens as providers count them; what is cached is part of neither. */
export interface Tokens {
  readonly input: number
  readonly cached: number
  readonly output: number
}

/** What models were asked for. The way out counts it on the wire; an agent's own word stands in where it could not. */
export interface RunUsage extends Tokens {
  readonly requests: number
  /** Undefined where nobody knows the price. */
  readonly costUsd?: number | undefined
  readonly source: 'wire' | 'agent' | 'none'
  readonly models: Readonly<Record<string, Tokens & { readonly costUsd: number | undefined }>>
}

/** Of one answer of a list; older ones are not in it. */
export const MOST_LISTED_RUNS = 200

export interface RunLimits {
  readonly timeMs: number
  /** Undefined: no such limit. */
  readonly costUsd?: number | undefined
  /** How long a question waits before it is answered with no. */
  readonly answerMs: number
}

/** What the run is given to work on, and what a branch is made of later. The host knows both ids; the sandbox is not asked. */
export interface RunProject {
  /** Where the copy lies inside. */
  readonly workspace: string
  /** Below it: where the agent begins, which is where the user was. */
  readonly directory?: string | undefined
  /** For people: the directory's name. */
  readonly name: string
  /** Tells repositories of one user apart: a digest over where it lies. */
  readonly key: string
  /** The commit it began with; undefined in a repository without one. */
  readonly commit?: string | undefined
  /** The tree it began with, uncommitted files and all. */
  readonly tree: string
  /** Directories inside that are not the project's. */
  readonly aside: readonly string[]
}

/** A tree made inside, as a pack that the client checks before anything of it is used. */
export interface RunResult {
  readonly tree: string
  readonly packBytes: number
  /** Files left out because they are too large, with their sizes. */
  readonly tooLarge: readonly { readonly path: string; readonly sizeBytes: number }[]
  /** Files left out for another reason: names that git or a disk would not take, or no right to read them. */
  readonly leftOut: readonly string[]
  /** Subjects of commits that the agent made itself. */
  readonly commits: readonly string[]
  readonly submodules: readonly string[]
}

export interface Run {
  readonly id: string
  readonly owner: string
  /** Runs that were started together. */
  readonly group?: string | undefined
  readonly agent: string
  /** The number among runs of one agent on a project. */
  readonly number: number
  /** How many times it was given something to do. */
  readonly turn: number
  readonly model?: string | undefined
  readonly prompt: string
  readonly state: RunState
  readonly outcome?: Outcome | undefined
  /** Why, in one sentence. */
  readonly reason?: string | undefined
  readonly sandboxId?: SandboxId | undefined
  /** The agent's own name for its conversation. */
  readonly session?: string | undefined
  readonly project?: RunProject | undefined
  readonly result?: RunResult | undefined
  readonly usage: RunUsage
  /** What was refused to it: questions answered with no, and hosts. */
  readonly denials: number
  readonly limits: RunLimits
  readonly permissions: PermissionRules
  readonly createdAt: number
  readonly endedAt?: number | undefined
  /** When the sandbox of an ended run is destroyed. */
  readonly keptUntil?: number | undefined
}

/** What a tool does, in words that are the same for every agent. */
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
  /** Parts with one `message` belong together. */
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
      /** `running`: `output` is what it has printed since the last event about it. */
      readonly status: 'started' | 'running' | 'done' | 'failed'
      readonly output?: string
    }
  /** A file that a tool changed, as the agent tells it. The branch tells the truth. */
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
  /** What a pattern is held against: the command, the path, `server/tool`, `host:port`. */
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
