/**
 * A snapshot as one file, to store elsewhere or move to another machine:
 *
 *     agentpod-snapshot 1 <sha256 of the manifest> <its length>\n
 *     <manifest, JSON>
 *     <the bytes of each part, in the order of the manifest>
 *
 * The manifest has the length and the sha256 of every part, so nothing of a damaged or shortened archive is
 * used. The parts are the layers below (lowest first) and then the files themselves, packed by the provider.
 */

import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import * as z from 'zod'
import { BASES } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import { newSnapshotId, parseName } from '../../core/id.ts'
import { isImageRef } from '../../core/image-ref.ts'
import type { Packed, Provider, RootRef } from '../../core/provider.ts'
import { RESOURCE_NAMES } from '../../core/resources.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Spec } from '../../core/spec.ts'
import { checkEphemeral, MOST_EPHEMERAL } from '../../core/volume/ephemeral.ts'
import { spareBytes } from '../../util/file/disk-space.ts'
import { randomWord } from '../../util/random.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { ByteReader } from '../../util/stream/byte-reader.ts'
import { CALL, COPY } from '../call.ts'
import type { Context } from '../context.ts'
import { resolveSpec } from '../lifecycle/create.ts'
import { noteImported } from './imported-layers.ts'
import { discardSnapshot } from './snapshot.ts'

export interface ImportRequest {
  readonly owner: string
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** The provider that stores it; the default one if left out. */
  readonly provider?: string | undefined
}

const MAGIC = 'agentpod-snapshot 1'
const LONGEST_HEAD = 120
const LONGEST_MANIFEST = 1 << 20
const LARGEST_PART = 2 ** 50
const LATEST = Date.UTC(9999, 0)

const part = z.strictObject({
  kind: z.enum(['layer', 'files']),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.int().min(1).max(LARGEST_PART),
})

const manifest = z.strictObject({
  base: z.enum(['host', 'layers']),
  // A later date is beyond the calendar of Date and would break every list that shows it.
  createdAt: z.int().min(0).max(LATEST),
  spec: z.record(z.string(), z.unknown()),
  parts: z.array(part).min(1).max(129),
})

type Part = z.infer<typeof part>

export async function exportSnapshot(ctx: Context, snapshot: Snapshot): Promise<Readable> {
  const provider = ctx.providers.of(snapshot)
  const snapshots = ctx.providers.group(snapshot, 'snapshots')
  const { layers } = provider
  const { root, spec, createdAt } = snapshot
  if (!root || snapshot.state !== 'ready') throw damaged('its files are gone')
  if (root.over && root.over.length > 0) throw onEnvironment(snapshot)
  // An image that the provider keeps as layers goes along like any other layers.
  const isDaemons = spec.environment.image !== undefined && (layers?.of(root) ?? []).length === 0
  if (isDaemons) throw onImage(snapshot)
  const digests = layers?.of(root) ?? []
  const packed: Packed[] = []
  try {
    await ctx.snapshotRegistry.using(snapshot, async () => {
      for (const digest of digests) if (layers) packed.push(await layers.export(digest, COPY))
      packed.push(await snapshots.export(snapshot.id, COPY))
    })
    const parts = packed.map(({ digest, sizeBytes }, at) => ({ kind: kindOf(at, packed), digest, sizeBytes }))
    const base = digests.length > 0 ? 'layers' : 'host'
    const text = JSON.stringify({ base, createdAt, spec: withoutVariables(spec), parts })
    const head = `${MAGIC} ${sha256Hex(text)} ${Buffer.byteLength(text)}\n${text}`
    const archive = Readable.from(concatenated(head, packed), { objectMode: false })
    // Needed for an archive that is never read: a generator that did not start runs no `finally`.
    archive.once('close', () => discardContent(packed))
    return archive
  } catch (error) {
    discardContent(packed)
    throw error
  }
}

/** The files themselves are the last part. */
function kindOf(at: number, packed: readonly Packed[]): Part['kind'] {
  return at === packed.length - 1 ? 'files' : 'layer'
}

function discardContent(packed: readonly Packed[]): void {
  for (const { content } of packed) content.destroy()
}

/**
 * SECURITY: LK-14. People put keys into variables, also of services, and an archive may leave the owner's
 * control. Those of an image stay: they come from its maker. Services and start commands are left out too:
 * whoever imports an archive has not asked to run them.
 */
function withoutVariables(spec: Spec): Spec {
  const { base, user, workdir, sudo, inherited } = spec.environment
  const own = inherited && { inherited }
  return { ...spec, environment: { base, user, workdir, sudo, variables: {}, ...own } }
}

async function* concatenated(head: string, packed: readonly Packed[]): AsyncGenerator<Buffer> {
  yield Buffer.from(head)
  for (const { content } of packed) yield* content as AsyncIterable<Buffer>
}

/** Nothing is stored of an archive that is incomplete or damaged. */
export async function importSnapshot(
  ctx: Context,
  archive: Readable,
  request: ImportRequest,
): Promise<Snapshot> {
  const provider = ctx.providers.use(
    request.provider === undefined ? ctx.providers.default : ctx.providers.named(request.provider),
  )
  const snapshots = ctx.providers.groupOf(provider, 'snapshots')
  const name = request.name === undefined ? undefined : parseName(request.name)
  const reader = new ByteReader(archive)
  const { base, spec, parts, createdAt } = await readManifest(reader)
  ctx.providers.groupOf(provider, base)
  const files: { part: Part; file: string }[] = []
  try {
    for (const one of parts) {
      const file = tmpName(ctx)
      files.push({ part: one, file })
      await receive(ctx, reader, one, file)
    }
    if (!(await reader.isAtEnd())) throw damaged('there is data after its end')
    const own = files.at(-1)
    if (own?.part.kind !== 'files') throw damaged('it has no files')
    const root = rootOf(ctx, provider, base, files)
    const snapshot: Snapshot = {
      id: newSnapshotId(ctx.random),
      owner: request.owner,
      name,
      labels: request.labels ?? {},
      provider: provider.name,
      state: 'creating',
      isTemporary: false,
      sandboxId: undefined,
      parentId: undefined,
      spec,
      root,
      sizeBytes: 0,
      createdAt,
    }
    ctx.snapshotRegistry.add(snapshot)
    try {
      await importLayers(ctx, provider, files)
      const content = createReadStream(join(ctx.tmpDir, own.file))
      const packed = { digest: own.part.digest, content, root }
      const kept = await snapshots.import(snapshot.id, ctx.owner, packed, COPY)
      return ctx.snapshotRegistry.complete(snapshot, kept)
    } catch (error) {
      await discardSnapshot(ctx, snapshot)
      throw error
    }
  } finally {
    for (const { file } of files) await rm(join(ctx.tmpDir, file), { force: true })
  }
}

function rootOf(
  ctx: Context,
  provider: Provider,
  base: 'host' | 'layers',
  files: readonly { part: Part }[],
): RootRef {
  const below = files.map(({ part: one }) => one).filter(({ kind }) => kind === 'layer')
  if (below.length !== files.length - 1 || (base === 'layers') !== below.length > 0) {
    throw damaged('its parts do not fit together')
  }
  if (base === 'host') return ctx.providers.groupOf(provider, 'host').root()
  return ctx.providers.groupOf(provider, 'layers').root(below.map(({ digest }) => digest))
}

async function importLayers(
  ctx: Context,
  provider: Provider,
  files: readonly { part: Part; file: string }[],
): Promise<void> {
  for (const { part: one, file } of files) {
    if (one.kind !== 'layer') continue
    const layers = ctx.providers.groupOf(provider, 'layers')
    if (await layers.has(one.digest, CALL)) continue
    noteImported(ctx, provider, one.digest)
    await layers.import(one.digest, createReadStream(join(ctx.tmpDir, file)), COPY)
  }
}

async function readManifest(
  reader: ByteReader,
): Promise<{ base: 'host' | 'layers'; spec: Spec; parts: Part[]; createdAt: number }> {
  const head = (await reader.line(LONGEST_HEAD)) ?? ''
  const [, digest, length] = new RegExp(`^${MAGIC} ([0-9a-f]{64}) (\\d{1,8})$`).exec(head) ?? []
  if (digest === undefined) {
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'snapshot.archive',
      message: 'this is not a snapshot archive',
      hint: '`agentpod snapshot export` makes one',
    })
  }
  if (Number(length) > LONGEST_MANIFEST) throw damaged('its manifest is too long')
  const text = (await reader.exactly(Number(length)))?.toString('utf8')
  if (text === undefined || sha256Hex(text) !== digest)
    throw damaged('its manifest does not match its checksum')
  const parsed = manifest.safeParse(jsonOf(text))
  if (!parsed.success) throw damaged(`its manifest is malformed: ${parsed.error.issues[0]?.message}`)
  return { ...parsed.data, spec: checkedSpec(parsed.data.spec) }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw damaged('its manifest is not JSON')
  }
}

/**
 * SECURITY: an archive may come from anybody. Its spec passes the same checks as that of a create, and grants
 * nothing.
 */
function checkedSpec(value: Record<string, unknown>): Spec {
  const shape = specShape.safeParse(value)
  if (!shape.success) throw damaged(`its spec is malformed: ${shape.error.issues[0]?.message}`)
  const { environment, resources, lifetime, ephemeral } = shape.data
  checkEphemeral(ephemeral ?? [])
  return resolveSpec({ environment: { ...environment, sudo: false }, resources, lifetime, ephemeral })
}

const MOST_VARIABLE = 128 * 1024
const MOST_VARIABLES = 1024

const specShape = z.object({
  environment: z.strictObject({
    base: z.enum(BASES),
    image: z.string().refine(isImageRef).optional(),
    variables: z.strictObject({}),
    inherited: z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(MOST_VARIABLE))
      .refine((map) => Object.keys(map).length <= MOST_VARIABLES)
      .optional(),
    user: z.string().max(64),
    workdir: z.string().max(4096),
    sudo: z.boolean(),
  }),
  resources: z.partialRecord(z.enum(RESOURCE_NAMES), z.number()),
  lifetime: z.strictObject({
    ttlMs: z.number(),
    idleMs: z.number(),
    whenOver: z.enum(['destroy', 'pause', 'stop']),
    whenIdle: z.literal('pause').optional(),
    toDiskAfterMs: z.number().optional(),
    autoResume: z.boolean(),
  }),
  ephemeral: z
    .array(z.strictObject({ path: z.string(), sizeMib: z.number().optional() }))
    .max(MOST_EPHEMERAL)
    .optional(),
})

/** Writes one part to a file. Refuses it if its length or digest is wrong. */
async function receive(
  ctx: Context,
  reader: ByteReader,
  { digest, sizeBytes }: Part,
  file: string,
): Promise<void> {
  if ((await spareBytes(ctx.tmpDir)) < sizeBytes) throw noDiskSpace()
  const path = join(ctx.tmpDir, file)
  const hash = createHash('sha256')
  const out = createWriteStream(path, { flags: 'wx', mode: 0o600 })
  // Each write reports its own error; the event alone would end the process.
  out.on('error', () => undefined)
  try {
    await copy(reader, sizeBytes, hash, out)
  } finally {
    await new Promise<void>((resolve) => out.close(() => resolve()))
  }
  if (hash.digest('hex') !== digest) throw damaged('a part does not match its checksum')
}

async function copy(
  reader: ByteReader,
  sizeBytes: number,
  hash: Hash,
  out: NodeJS.WritableStream,
): Promise<void> {
  for (let left = sizeBytes; left > 0; ) {
    const chunk = await reader.atMost(left)
    if (!chunk) throw damaged('it is cut short')
    hash.update(chunk)
    await new Promise<void>((resolve, reject) =>
      out.write(chunk, (error?: Error | null) => (error ? reject(error) : resolve())),
    )
    left -= chunk.length
  }
}

/** The snapshots below are shared. Imported here they would have no owner, and nothing would remove them. */
function onEnvironment({ id, name }: Snapshot): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'snapshot.environment',
    message: `snapshot ${name ?? id} uses a built environment, which an archive does not contain`,
    hint: 'build the environment on the other machine and copy the project there',
  })
}

function onImage({ id, name, spec }: Snapshot): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'snapshot.image',
    message: `snapshot ${name ?? id} uses the image ${spec.environment.image}, which an archive does not contain`,
    hint: 'pull the image on the other machine and copy the project there',
  })
}

function noDiskSpace(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'disk.reserve',
    message: 'the disk that holds the state directory has no room for the archive',
    hint: 'free some space there, or destroy sandboxes and snapshots',
  })
}

function tmpName(ctx: Context): string {
  return `snapshot-${randomWord(ctx.random, 16)}.tar.gz`
}

function damaged(why: string): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'snapshot.damaged',
    message: `the snapshot archive is damaged: ${why}`,
    hint: 'export it again, or copy the file again',
  })
}
