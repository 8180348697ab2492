/**
 * Every route of our own control plane, once: the OpenAPI description and the page at /docs are made from it, and a test holds
 * it against what is registered. E2B's routes are described by E2B.
 */
import type { z } from 'zod'
import type { ErrorCode } from '../core/error.ts'
import { baseProgress, errorAnswer, stopping } from './schema/error.ts'
import { createdKey, createKey, key } from './schema/key.ts'
import { changeNetwork, explained, explainRequest, network } from './schema/network.ts'
import { importSnapshot, listAudit, listEvents, listSandboxes, listSnapshots } from './schema/query.ts'
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
  AuditEntry: auditEntry,
  BaseProgress: baseProgress,
  ChangeNetwork: changeNetwork,
  Check: check,
  CreateKey: createKey,
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
  Listen: listenRequest,
  Network: network,
  Preview: preview,
  RotateSecret: rotateSecret,
  Sandbox: sandbox,
  SandboxEvent: sandboxEvent,
  Secret: secret,
  Server: server,
  SetSecret: setSecret,
  Snapshot: snapshot,
  Stats: stats,
  Stopping: stopping,
  TcpAddress: tcpAddress,
  Usage: usage,
  WakeSandbox: wakeSandbox,
} as const satisfies Record<string, z.ZodType>
export type SchemaName = keyof typeof SCHEMAS

/** Requests are described as they are sent, answers as they arrive. */
export const REQUESTS: ReadonlySet<SchemaName> = new Set([
  'ChangeNetwork',
  'Explain',
  'RotateSecret',
  'SetSecret',
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
  sandboxes: 'Isolated machines with an id, a state, an owner and a lifetime.',
  snapshots: 'Files of sandboxes as they were at one moment; they never change.',
  network: 'What sandboxes may reach.',
  secrets: 'Values that stay outside; a sandbox holds a placeholder.',
  keys: 'Who may call. A secret is shown once, when its key is made.',
  server: 'The server itself.',
  about: 'This description, figures, and who did what.',
} as const
export type Tag = keyof typeof TAGS

const REF = { ref: 'The id of a sandbox, or the name of a living one.' }
const SNAPSHOT_REF = { ref: 'The id or the name of a snapshot.' }

export const ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/v1/sandboxes',
    tag: 'sandboxes',
    summary: 'Create a sandbox',
    description:
      'Answers when it takes commands. Everything left out has a default; no body at all is a sandbox of defaults.',
    who: 'key',
    headers: { 'Idempotency-Key': 'Two creates with one key are one create. 1 to 256 characters.' },
    body: 'CreateSandbox',
    answers: [{ status: 201, says: 'It runs.', schema: 'Sandbox' }],
    errors: ['already_exists', 'conflict', 'unsupported', 'failed_precondition', 'resource_exhausted'],
  },
  {
    method: 'GET',
    path: '/v1/sandboxes',
    tag: 'sandboxes',
    summary: 'List sandboxes',
    description:
      'Newest first. A key sees its own, an admin all. Where there are more, the header `agentpod-next` says where they begin.',
    who: 'key',
    query: listSandboxes,
    answers: [
      {
        status: 200,
        says: 'A page of them.',
        schema: 'Sandbox',
        isList: true,
        headers: { 'agentpod-next': 'The `after` of the next page; absent on the last.' },
      },
    ],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/sandboxes/{ref}',
    tag: 'sandboxes',
    summary: 'Get a sandbox',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'Its record, also where it has ended.', schema: 'Sandbox' }],
    errors: ['not_found'],
  },
  {
    method: 'DELETE',
    path: '/v1/sandboxes/{ref}',
    tag: 'sandboxes',
    summary: 'Destroy a sandbox',
    description: 'Answers when nothing is left of it. A second call gives the same answer.',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'Its last record.', schema: 'Sandbox' }],
    errors: ['not_found'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/extend',
    tag: 'sandboxes',
    summary: 'Give a sandbox more time, or less',
    description: 'Its time to live counts from now.',
    who: 'key',
    parameters: REF,
    body: 'ExtendSandbox',
    answers: [{ status: 200, says: 'Its record with the new deadline.', schema: 'Sandbox' }],
    errors: ['not_found', 'conflict'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/pause',
    tag: 'sandboxes',
    summary: 'Freeze a sandbox with its memory',
    description:
      'Its processes stand still, its time does not count, and streams into it stay open and are silent. A freeze does not outlive a reboot of the machine: then it is stopped. A second call gives the same answer. `unsupported` where this machine has no freezer.',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'It is paused.', schema: 'Sandbox' }],
    errors: ['not_found', 'conflict', 'unsupported'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/resume',
    tag: 'sandboxes',
    summary: 'Let a paused sandbox run on',
    description: 'Its time to live counts from now. One that runs already is left as it is.',
    who: 'key',
    parameters: REF,
    body: 'WakeSandbox',
    answers: [{ status: 200, says: 'It runs.', schema: 'Sandbox' }],
    errors: ['not_found', 'conflict'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/stop',
    tag: 'sandboxes',
    summary: 'End a sandbox’s processes and keep its files',
    description: 'Streams into it are cut. A second call gives the same answer.',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'It is stopped.', schema: 'Sandbox' }],
    errors: ['not_found', 'conflict'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/start',
    tag: 'sandboxes',
    summary: 'Run a stopped sandbox again on its files',
    description: 'Its time to live counts from now. One that runs already is left as it is.',
    who: 'key',
    parameters: REF,
    body: 'WakeSandbox',
    answers: [{ status: 200, says: 'It runs.', schema: 'Sandbox' }],
    errors: ['not_found', 'conflict', 'failed_precondition'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/fork',
    tag: 'sandboxes',
    summary: 'Make copies of a sandbox',
    description:
      'All begin with the files of one moment, and without its processes. Each succeeds or fails for itself; where none succeeds, the answer is the error of the first.',
    who: 'key',
    parameters: REF,
    body: 'ForkSandbox',
    answers: [{ status: 201, says: 'One entry a fork.', schema: 'Forked', isList: true }],
    errors: ['not_found', 'already_exists', 'conflict', 'unsupported', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/snapshots',
    tag: 'snapshots',
    summary: 'Take a snapshot of a sandbox’s files',
    description:
      'A running sandbox stands still for a moment and runs on. What is in memory, /tmp and /dev/shm is no part of it.',
    who: 'key',
    parameters: REF,
    body: 'CreateSnapshot',
    answers: [{ status: 201, says: 'It is kept.', schema: 'Snapshot' }],
    errors: ['not_found', 'already_exists', 'conflict', 'unsupported', 'resource_exhausted'],
  },
  {
    method: 'GET',
    path: '/v1/snapshots',
    tag: 'snapshots',
    summary: 'List snapshots',
    description:
      'Newest first. A key sees its own, an admin all. Where there are more, the header `agentpod-next` says where they begin.',
    who: 'key',
    query: listSnapshots,
    answers: [
      {
        status: 200,
        says: 'A page of them.',
        schema: 'Snapshot',
        isList: true,
        headers: { 'agentpod-next': 'The `after` of the next page; absent on the last.' },
      },
    ],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/snapshots/{ref}',
    tag: 'snapshots',
    summary: 'Get a snapshot',
    who: 'key',
    parameters: SNAPSHOT_REF,
    answers: [{ status: 200, says: 'Its record.', schema: 'Snapshot' }],
    errors: ['not_found'],
  },
  {
    method: 'DELETE',
    path: '/v1/snapshots/{ref}',
    tag: 'snapshots',
    summary: 'Remove a snapshot',
    description: 'Sandboxes made from it keep their files.',
    who: 'key',
    parameters: SNAPSHOT_REF,
    answers: [{ status: 200, says: 'Its last record.', schema: 'Snapshot' }],
    errors: ['not_found', 'conflict'],
  },
  {
    method: 'GET',
    path: '/v1/snapshots/{ref}/archive',
    tag: 'snapshots',
    summary: 'A snapshot as one file',
    description:
      'Streamed. An answer that is cut short is not whole; importing it would be refused, since the archive holds the checksums of its parts.',
    who: 'key',
    parameters: SNAPSHOT_REF,
    answers: [{ status: 200, says: 'The archive.', media: 'application/octet-stream' }],
    errors: ['not_found', 'data_loss', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/snapshots/archive',
    tag: 'snapshots',
    summary: 'Import a snapshot',
    description:
      'The body is an archive, of any length, streamed. Nothing is kept of one that is damaged or cut short.',
    who: 'key',
    query: importSnapshot,
    stream: 'application/octet-stream',
    answers: [{ status: 201, says: 'It is kept.', schema: 'Snapshot' }],
    errors: ['already_exists', 'unsupported', 'resource_exhausted', 'data_loss'],
  },
  {
    method: 'GET',
    path: '/v1/sandboxes/{ref}/stats',
    tag: 'sandboxes',
    summary: 'What a sandbox uses now',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'Its figures.', schema: 'Stats' }],
    errors: ['not_found', 'conflict'],
  },
  {
    method: 'GET',
    path: '/v1/sandboxes/{ref}/events',
    tag: 'sandboxes',
    summary: 'What happened to a sandbox',
    description:
      'A list of at most 1,000, or with `follow=true` a stream of server-sent events: each has its `seq` as id, so a client that comes back with `Last-Event-ID` misses nothing and hears nothing twice. A comment every 15 seconds keeps the connection open; the stream ends when the sandbox has.',
    who: 'key',
    parameters: REF,
    query: listEvents,
    headers: { 'Last-Event-ID': 'With `follow=true`: the last event that the client has.' },
    answers: [
      { status: 200, says: 'Oldest first.', schema: 'Event', isList: true },
      { status: 200, says: 'With `follow=true`.', schema: 'Event', media: 'text/event-stream' },
    ],
    errors: ['not_found', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/ports/{port}',
    tag: 'sandboxes',
    summary: 'The address of a port',
    description:
      'Opens the TCP listener where it is not open yet. `openUrl` lets one browser in, once, within a minute, where the port is private.',
    who: 'key',
    parameters: { ...REF, port: 'From 1 to 65535.' },
    answers: [{ status: 200, says: 'Where a browser finds it.', schema: 'Preview' }],
    errors: ['not_found'],
  },
  {
    method: 'GET',
    path: '/v1/sandboxes/{ref}/network',
    tag: 'network',
    summary: 'What a sandbox may reach',
    who: 'key',
    parameters: REF,
    answers: [{ status: 200, says: 'Its rules, and what it has used.', schema: 'Network' }],
    errors: ['not_found'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/network',
    tag: 'network',
    summary: 'Change what a sandbox may reach',
    description:
      'At once; connections that the new rules refuse are cut within five seconds. What is left out stays.',
    who: 'key',
    parameters: REF,
    body: 'ChangeNetwork',
    answers: [{ status: 200, says: 'Its rules from now on.', schema: 'Network' }],
    errors: ['not_found', 'conflict', 'permission_denied'],
  },
  {
    method: 'POST',
    path: '/v1/sandboxes/{ref}/network/explain',
    tag: 'network',
    summary: 'Which rule decides about an address',
    description: 'Nothing is asked of the network.',
    who: 'key',
    parameters: REF,
    body: 'Explain',
    answers: [{ status: 200, says: 'The decision and its reason.', schema: 'Explained' }],
    errors: ['not_found'],
  },
  {
    method: 'GET',
    path: '/v1/secrets',
    tag: 'secrets',
    summary: 'List secrets',
    description: 'The caller’s own, without their values.',
    who: 'key',
    answers: [{ status: 200, says: 'By name.', schema: 'Secret', isList: true }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/secrets',
    tag: 'secrets',
    summary: 'Set a secret',
    description:
      'Makes it, or replaces it as a whole. Sandboxes that hold a placeholder of it go on with the new value.',
    who: 'key',
    body: 'SetSecret',
    answers: [{ status: 201, says: 'It is kept, sealed.', schema: 'Secret' }],
    errors: ['resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/secrets/{name}/rotate',
    tag: 'secrets',
    summary: 'Give a secret a new value',
    who: 'key',
    parameters: { name: 'The name of a secret.' },
    body: 'RotateSecret',
    answers: [{ status: 200, says: 'It has the new value, in every living sandbox too.', schema: 'Secret' }],
    errors: ['not_found'],
  },
  {
    method: 'DELETE',
    path: '/v1/secrets/{name}',
    tag: 'secrets',
    summary: 'Remove a secret',
    description: 'Its placeholders are worth nothing from then on.',
    who: 'key',
    parameters: { name: 'The name of a secret.' },
    answers: [{ status: 200, says: 'What was known of it.', schema: 'Secret' }],
    errors: ['not_found'],
  },
  {
    method: 'GET',
    path: '/v1/usage',
    tag: 'about',
    summary: 'What the caller has, and may have',
    who: 'key',
    answers: [{ status: 200, says: 'The caller’s own figures.', schema: 'Usage' }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/bases/{base}',
    tag: 'server',
    summary: 'Make a base ready',
    description: 'The first time may take a minute; lines of JSON tell how far it is.',
    who: 'key',
    parameters: { base: 'The name of a base.' },
    answers: [{ status: 200, says: 'Lines of JSON.', schema: 'BaseProgress', media: 'application/x-ndjson' }],
    errors: ['not_found'],
  },
  {
    method: 'GET',
    path: '/v1/keys',
    tag: 'keys',
    summary: 'List keys',
    who: 'admin',
    answers: [{ status: 200, says: 'All, revoked ones too.', schema: 'Key', isList: true }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/keys',
    tag: 'keys',
    summary: 'Create a key',
    who: 'admin',
    body: 'CreateKey',
    answers: [
      { status: 201, says: 'The key, with the secret that is shown this once.', schema: 'CreatedKey' },
    ],
    errors: ['resource_exhausted'],
  },
  {
    method: 'DELETE',
    path: '/v1/keys/{id}',
    tag: 'keys',
    summary: 'Revoke a key',
    description: 'At once. Its sandboxes live on and are the admin’s to end.',
    who: 'admin',
    parameters: { id: 'The id of a key.' },
    answers: [{ status: 200, says: 'Its last record.', schema: 'Key' }],
    errors: ['not_found'],
  },
  {
    method: 'GET',
    path: '/v1/server',
    tag: 'server',
    summary: 'The server and what it can do here',
    who: 'admin',
    answers: [{ status: 200, says: 'Version, listeners, capabilities.', schema: 'Server' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/server/checks',
    tag: 'server',
    summary: 'Whether this machine runs sandboxes',
    who: 'admin',
    answers: [{ status: 200, says: 'One entry a check.', schema: 'Check', isList: true }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/server/listen',
    tag: 'server',
    summary: 'Open the loopback TCP listener',
    description: 'Where it is open already, answers where.',
    who: 'admin',
    body: 'Listen',
    answers: [{ status: 200, says: 'Where it listens.', schema: 'TcpAddress' }],
    errors: ['failed_precondition'],
  },
  {
    method: 'POST',
    path: '/v1/server/stop',
    tag: 'server',
    summary: 'Stop the server',
    description: 'Sandboxes live on until their deadlines.',
    who: 'admin',
    answers: [{ status: 200, says: 'It stops after this answer.', schema: 'Stopping' }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/server/clear',
    tag: 'server',
    summary: 'Destroy everything and stop the server',
    who: 'admin',
    answers: [{ status: 200, says: 'It stops after this answer.', schema: 'Stopping' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/audit',
    tag: 'about',
    summary: 'Who asked for what',
    description:
      'What was asked for of sandboxes and snapshots that changes them, and keys made and revoked. Oldest first.',
    who: 'admin',
    query: listAudit,
    answers: [{ status: 200, says: 'A page of them.', schema: 'AuditEntry', isList: true }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/audit/network',
    tag: 'about',
    summary: 'What the way out decided for every sandbox',
    description:
      'Equal decisions are counted together. A sandbox keeps its newest ten thousand. Oldest first.',
    who: 'admin',
    query: listAudit,
    answers: [{ status: 200, says: 'A page of them.', schema: 'SandboxEvent', isList: true }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/health',
    tag: 'about',
    summary: 'Whether the server answers',
    who: 'anyone',
    answers: [{ status: 204, says: 'It does.' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/docs',
    tag: 'about',
    summary: 'This description as a page',
    who: 'anyone',
    answers: [{ status: 200, says: 'HTML that loads nothing.', media: 'text/html' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/openapi.json',
    tag: 'about',
    summary: 'This description',
    who: 'anyone',
    answers: [{ status: 200, says: 'OpenAPI 3.1.', media: 'application/json' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/metrics',
    tag: 'about',
    summary: 'Figures for Prometheus',
    who: 'admin',
    answers: [{ status: 200, says: 'Prometheus’ text format.', media: 'text/plain' }],
    errors: [],
  },
]

/** What any call that needs a key may answer. */
export const ANY_ERRORS: readonly ErrorCode[] = ['invalid_argument', 'unauthenticated', 'permission_denied']
export const ALWAYS: readonly ErrorCode[] = ['resource_exhausted', 'unavailable', 'internal']

export const DATA_PLANE = `
Processes, terminals and files inside a sandbox are not part of this description: they are envd's protocol, spoken by podd inside and
passed through as bytes, streamed both ways. \`spec/guest-protocol.md\` describes it. A request goes to a sandbox when it carries the header
\`agentpod-sandbox\` with its id or name (and a key), or when its Host is \`49983-<id>.<domain>\` and it carries the sandbox's
\`X-Access-Token\` or a signed address. Any other port of a sandbox is at \`<port>-<id>.<domain>\`. Either wakes a sandbox that is paused or
stopped, where its \`lifetime.autoResume\` says so, unless it carries \`agentpod-wake: never\` or asks for \`/health\`; where it does not, the answer
is 409 with the reason \`sandbox.state\`, and 502 at the sandbox's own names.
`
  .trim()
  .replaceAll('\n', ' ')
