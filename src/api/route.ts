/** What a route is, and the schemas that routes speak of. */
import type { z } from 'zod'
import type { ErrorCode } from '../core/error.ts'
import {
  buildEvent,
  buildRequest,
  layer,
  pruned,
  pruneRequest,
  toolchains,
  uploaded,
} from './schema/build.ts'
import { baseProgress, errorAnswer, stopping } from './schema/error.ts'
import { createdKey, createKey, key } from './schema/key.ts'
import { changeNetwork, explained, explainRequest, network } from './schema/network.ts'
import { provider } from './schema/provider.ts'
import { answerRun, createRun, run, runEvent, sendRun, takenOver } from './schema/run.ts'
import {
  createSandbox,
  event,
  extendSandbox,
  forked,
  forkSandbox,
  preview,
  sandbox,
  sandboxEvent,
  stats,
  wakeSandbox,
} from './schema/sandbox.ts'
import { rotateSecret, secret, setSecret } from './schema/secret.ts'
import { check, listenRequest, server, tcpAddress } from './schema/server.ts'
import { createSnapshot, snapshot } from './schema/snapshot.ts'
import { auditEntry, usage } from './schema/usage.ts'

/** The schemas by the names that the description gives them. */
export const SCHEMAS = {
  AnswerRun: answerRun,
  AuditEntry: auditEntry,
  BaseProgress: baseProgress,
  Build: buildRequest,
  BuildEvent: buildEvent,
  ChangeNetwork: changeNetwork,
  Check: check,
  Provider: provider,
  CreateKey: createKey,
  CreateRun: createRun,
  CreateSandbox: createSandbox,
  CreateSnapshot: createSnapshot,
  CreatedKey: createdKey,
  Error: errorAnswer,
  Event: event,
  Explain: explainRequest,
  Explained: explained,
  ExtendSandbox: extendSandbox,
  ForkSandbox: forkSandbox,
  Forked: forked,
  Key: key,
  Layer: layer,
  Listen: listenRequest,
  Network: network,
  Preview: preview,
  Prune: pruneRequest,
  Pruned: pruned,
  RotateSecret: rotateSecret,
  Run: run,
  RunEvent: runEvent,
  Sandbox: sandbox,
  SandboxEvent: sandboxEvent,
  Secret: secret,
  SendRun: sendRun,
  Server: server,
  SetSecret: setSecret,
  Snapshot: snapshot,
  Stats: stats,
  Stopping: stopping,
  TakenOver: takenOver,
  TcpAddress: tcpAddress,
  Toolchains: toolchains,
  Uploaded: uploaded,
  Usage: usage,
  WakeSandbox: wakeSandbox,
} as const satisfies Record<string, z.ZodType>
export type SchemaName = keyof typeof SCHEMAS

/** Requests are described as they are sent, answers as they arrive. */
export const REQUESTS: ReadonlySet<SchemaName> = new Set([
  'Build',
  'Prune',
  'ChangeNetwork',
  'Explain',
  'RotateSecret',
  'SetSecret',
  'AnswerRun',
  'CreateRun',
  'SendRun',
  'CreateKey',
  'CreateSandbox',
  'CreateSnapshot',
  'ExtendSandbox',
  'ForkSandbox',
  'Listen',
  'WakeSandbox',
])

/** `key`: any living key, for what is its own. `admin`: a key of scope admin. Over the unix socket everything is open. */
export type Who = 'anyone' | 'key' | 'admin'

export interface Answer {
  readonly status: number
  readonly says: string
  readonly schema?: SchemaName
  readonly isList?: boolean
  /** `application/json` when left out. */
  readonly media?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly tag: Tag
  readonly summary: string
  readonly description?: string
  readonly who: Who
  readonly parameters?: Readonly<Record<string, string>>
  readonly query?: z.ZodObject
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: SchemaName
  /** A body of another kind, streamed: its media type. */
  readonly stream?: string
  readonly answers: readonly Answer[]
  /** Besides those that every route may give. */
  readonly errors: readonly ErrorCode[]
}

export const TAGS = {
  providers: 'Who makes sandboxes: this machine, and others.',
  sandboxes: 'Isolated machines with an id, a state, an owner and a lifetime.',
  snapshots: 'Files of sandboxes as they were at one moment; they never change.',
  runs: 'Agents at work, each in a sandbox on a copy of a project.',
  builds: 'Recipes, and the layers that sandboxes stand on.',
  network: 'What sandboxes may reach.',
  secrets: 'Values that stay outside; a sandbox holds a placeholder.',
  keys: 'Who may call. A secret is shown once, when its key is made.',
  server: 'The server itself.',
  about: 'This description, figures, and who did what.',
} as const
export type Tag = keyof typeof TAGS
