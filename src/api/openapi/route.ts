/** The shape of a route in the table, and the schemas that routes refer to. */
import type { z } from 'zod'
import type { ErrorCode } from '../../core/error.ts'
import {
  buildEvent,
  buildRequest,
  dockerfileBuildRequest,
  layer,
  pruned,
  pruneRequest,
  toolchains,
  uploaded,
} from '../schema/build.ts'
import { baseProgress, errorAnswer, stopping } from '../schema/error.ts'
import { createGroup, group, memberSnapshot, nameGroup } from '../schema/group.ts'
import { getFeature, imageEvent, imageView, packedSource, pullImage, pushImage } from '../schema/image.ts'
import { createdKey, createKey, key } from '../schema/key.ts'
import { explained, explainRequest, network, networkChangeBody } from '../schema/network.ts'
import { provider } from '../schema/provider.ts'
import { answerRun, createRun, run, runEvent, sendRun, takenOver } from '../schema/run.ts'
import {
  changesView,
  createSandbox,
  event,
  extendSandbox,
  forked,
  forkSandbox,
  pauseRequest,
  previewView,
  sandbox,
  sandboxEvent,
  stats,
  wakeSandbox,
} from '../schema/sandbox.ts'
import { rotateSecret, secretView, setSecret } from '../schema/secret.ts'
import { check, listenRequest, server, tcpAddress } from '../schema/server.ts'
import { createSnapshot, snapshot } from '../schema/snapshot.ts'
import { auditEntry, usageView } from '../schema/usage.ts'
import { createVolume, volume } from '../schema/volume.ts'

/** The schemas by their names in the OpenAPI description. */
export const SCHEMAS = {
  AnswerRun: answerRun,
  AuditEntry: auditEntry,
  BaseProgress: baseProgress,
  Build: buildRequest,
  DockerfileBuild: dockerfileBuildRequest,
  BuildEvent: buildEvent,
  ChangeNetwork: networkChangeBody,
  Check: check,
  Provider: provider,
  CreateGroup: createGroup,
  CreateKey: createKey,
  CreateRun: createRun,
  CreateSandbox: createSandbox,
  CreateSnapshot: createSnapshot,
  CreateVolume: createVolume,
  CreatedKey: createdKey,
  Error: errorAnswer,
  Event: event,
  Explain: explainRequest,
  Explained: explained,
  ExtendSandbox: extendSandbox,
  ForkSandbox: forkSandbox,
  Forked: forked,
  Group: group,
  Image: imageView,
  ImageEvent: imageEvent,
  Key: key,
  Layer: layer,
  Listen: listenRequest,
  MemberSnapshot: memberSnapshot,
  NameGroup: nameGroup,
  Network: network,
  PackImage: packedSource,
  Preview: previewView,
  Prune: pruneRequest,
  Pruned: pruned,
  PullImage: pullImage,
  FetchFeature: getFeature,
  PushImage: pushImage,
  RotateSecret: rotateSecret,
  Run: run,
  RunEvent: runEvent,
  Sandbox: sandbox,
  SandboxEvent: sandboxEvent,
  Secret: secretView,
  SendRun: sendRun,
  Server: server,
  SetSecret: setSecret,
  Snapshot: snapshot,
  Stats: stats,
  Changes: changesView,
  Stopping: stopping,
  TakenOver: takenOver,
  TcpAddress: tcpAddress,
  Toolchains: toolchains,
  Uploaded: uploaded,
  Usage: usageView,
  Volume: volume,
  PauseSandbox: pauseRequest,
  WakeSandbox: wakeSandbox,
} as const satisfies Record<string, z.ZodType>
export type SchemaName = keyof typeof SCHEMAS

/** Schemas of requests are described as input, all others as output. */
export const REQUESTS: ReadonlySet<SchemaName> = new Set([
  'Build',
  'DockerfileBuild',
  'PackImage',
  'Prune',
  'PullImage',
  'FetchFeature',
  'PushImage',
  'ChangeNetwork',
  'Explain',
  'RotateSecret',
  'SetSecret',
  'AnswerRun',
  'CreateRun',
  'SendRun',
  'CreateGroup',
  'NameGroup',
  'CreateKey',
  'CreateSandbox',
  'CreateSnapshot',
  'CreateVolume',
  'ExtendSandbox',
  'ForkSandbox',
  'Listen',
  'PauseSandbox',
  'WakeSandbox',
])

/** `key`: any valid key, for its own objects. `admin`: a key of scope admin. The unix socket needs no key. */
export type Who = 'anyone' | 'key' | 'admin'

export interface RouteAnswer {
  readonly status: number
  readonly says: string
  readonly schema?: SchemaName
  readonly isList?: boolean
  /** `application/json` when left out. */
  readonly media?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface ApiRoute {
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
  /** The media type of a streamed body that is not JSON. */
  readonly stream?: string
  readonly answers: readonly RouteAnswer[]
  /** In addition to the errors of every route. */
  readonly errors: readonly ErrorCode[]
}

export const TAGS = {
  providers: 'Where sandboxes run: this machine and others.',
  sandboxes: 'Isolated machines with an id, a state, an owner and a lifetime.',
  snapshots: 'The files of a sandbox at one moment; a snapshot never changes.',
  groups: 'Sandboxes that know each other by name and are handled as one.',
  volumes: 'Directories that sandboxes mount and that outlive them.',
  runs: 'Agents that work in a sandbox on a copy of a project.',
  images: 'Container images: pulled from registries, and pushed to them.',
  builds: 'Recipes and the layers that they build.',
  network: 'Which hosts a sandbox may reach.',
  secrets: 'Values that stay outside the sandbox, which only gets a placeholder.',
  keys: 'API keys. The secret of a key is shown once, when it is created.',
  server: 'The server itself.',
  about: 'Health, this description, metrics, usage and the audit log.',
} as const
export type Tag = keyof typeof TAGS
