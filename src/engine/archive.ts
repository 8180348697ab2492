/**
 * A snapshot as one file, to keep elsewhere or carry to another machine:
 *
 *     agentpod-snapshot 1 <sha256 of the manifest> <its length>\n
 *     <manifest, JSON>
 *     <each part's bytes, in the manifest's order>
 *
 * The manifest has the length and the sha256 of every part, so nothing of a damaged or shortened archive is ever used. Parts are the layers
 * below (lowest first) and then the files themselves, packed by the provider.
 */
import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { z } from 'zod'
import { BASES } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import { newSnapshotId, parseName } from '../core/id.ts'
import { isImageRef } from '../core/image-ref.ts'
import type { Packed, Provider, RootRef } from '../core/provider.ts'
import { DEFAULT_RESOURCES, type Resources } from '../core/resources.ts'
import type { Snapshot } from '../core/snapshot.ts'
import type { Spec } from '../core/spec.ts'
import { ByteReader } from '../util/byte-reader.ts'
import { spareBytes } from '../util/disk-space.ts'
import { randomWord } from '../util/random.ts'
import { CALL, COPY } from './call.ts'
import type { Context } from './context.ts'
import { resolveSpec } from './create.ts'
import { noteImported } from './imported-layers.ts'
import { discard } from './snapshot.ts'

export interface ImportRequest {
  readonly owner: string
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Where it is kept; the default one when left out. */
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
  // A later one has no place in a calendar of ours, and would break every list it stands in.
  createdAt: z.int().min(0).max(LATEST),
  spec: z.record(z.string(), z.unknown()),
  parts: z.array(part).min(1).max(129),
})

type Part = z.infer<typeof part>

export async function exportSnapshot(ctx: Context, snapshot: Snapshot): Promise<Readable> {
  const provider = ctx.providers.of(snapshot)
  const keeper = ctx.providers.group(snapshot, 'snapshots')
  const { layers } = provider
  const { root, spec, createdAt } = snapshot
  if (!root || snapshot.state !== 'ready') throw damaged('its files are gone')
  if (root.over && root.over.length > 0) throw onEnvironment(snapshot)
  if (spec.environment.image !== undefined) throw onImage(snapshot)
  const digests = layers?.of(root) ?? []
  const packed: Packed[] = []
  try {
    await ctx.album.using(snapshot, async () => {
      for (const digest of digests) if (layers) packed.push(await layers.export(digest, COPY))
      packed.push(await keeper.export(snapshot.id, COPY))
    })
    const parts = packed.map(({ digest, sizeBytes }, at) => ({ kind: kindOf(at, packed), digest, sizeBytes }))
    const base = digests.length > 0 ? 'layers' : 'host'
    const text = JSON.stringify({ base, createdAt, spec: withoutVariables(spec), parts })
    const head = `${MAGIC} ${sha256(text)} ${Buffer.byteLength(text)}\n${text}`
    const archive = Readable.from(concatenated(head, packed), { objectMode: false })
    // Also where nobody ever reads it: a generator that was not begun has no end to clean up at.
    archive.once('close', () => discardContent(packed))
    return archive
  } catch (error) {
    discardContent(packed)
    throw error
  }
}

/** The files themselves come last. */
function kindOf(at: number, packed: readonly Packed[]): Part['kind'] {
  return at === packed.length - 1 ? 'files' : 'layer'
}

function discardContent(packed: readonly Packed[]): void {
  for (const { content } of packed) content.destroy()
}

/**
 * SECURITY: LK-14. People put keys in variables, those of services too, and an archive goes where its sandbox's owner does not look. What runs
 * by itself does not go either: whoever takes an archive has not asked for it.
 */
function withoutVariables(spec: Spec): Spec {
  const { base, user, workdir, sudo } = spec.environment
  return { ...spec, environment: { base, user, workdir, sudo, variables: {} } }
}

async function* concatenated(head: string, packed: readonly Packed[]): AsyncGenerator<Buffer> {
  yield Buffer.from(head)
  for (const { content } of packed) yield* content as AsyncIterable<Buffer>
}

/** Nothing is kept of an archive that is not whole and sound. */
export async function importSnapshot(
  ctx: Context,
  archive: Readable,
  request: ImportRequest,
): Promise<Snapshot> {
  const provider = ctx.providers.use(
    request.provider === undefined ? ctx.providers.default : ctx.providers.named(request.provider),
  )
  const keeper = ctx.providers.groupOf(provider, 'snapshots')
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
    if (!(await reader.isAtEnd())) throw damaged('there is something behind its end')
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
      isPassing: false,
      sandboxId: undefined,
      parentId: undefined,
      spec,
      root,
      sizeBytes: 0,
      createdAt,
    }
    ctx.album.begin(snapshot)
    try {
      await importLayers(ctx, provider, files)
      const content = createReadStream(join(ctx.tmpDir, own.file))
      const packed = { digest: own.part.digest, content, root }
      const kept = await keeper.import(snapshot.id, ctx.owner, packed, COPY)
      return ctx.album.complete(snapshot, kept)
    } catch (error) {
      await discard(ctx, snapshot)
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
  if (text === undefined || sha256(text) !== digest) throw damaged('its manifest does not match its checksum')
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

/** SECURITY: an archive is anybody's. Its spec passes the checks that a create's does, and grants nothing. */
function checkedSpec(value: Record<string, unknown>): Spec {
  const shape = specShape.safeParse(value)
  if (!shape.success) throw damaged(`its spec is malformed: ${shape.error.issues[0]?.message}`)
  const { environment, resources, lifetime } = shape.data
  return resolveSpec({ environment: { ...environment, sudo: false }, resources, lifetime })
}

const RESOURCES = Object.keys(DEFAULT_RESOURCES) as (keyof Resources)[]

const specShape = z.object({
  environment: z.strictObject({
    base: z.enum(BASES),
    image: z.string().refine(isImageRef).optional(),
    variables: z.strictObject({}),
    user: z.string().max(64),
    workdir: z.string().max(4096),
    sudo: z.boolean(),
  }),
  resources: z.partialRecord(z.enum(RESOURCES), z.number()),
  lifetime: z.strictObject({
    ttlMs: z.number(),
    idleMs: z.number(),
    whenOver: z.enum(['destroy', 'pause', 'stop']),
    autoResume: z.boolean(),
  }),
})

/** Writes one part to a file, and refuses it unless it is as long as it should be and what its digest says. */
async function receive(
  ctx: Context,
  reader: ByteReader,
  { digest, sizeBytes }: Part,
  file: string,
): Promise<void> {
  if ((await spareBytes(ctx.tmpDir)) < sizeBytes) throw noRoom()
  const path = join(ctx.tmpDir, file)
  const hash = createHash('sha256')
  const out = createWriteStream(path, { flags: 'wx', mode: 0o600 })
  // Each write answers with its own error; the event alone would end the process.
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

/** The snapshots below are shared by whoever stands on them; here they would be nobody's, and nothing would ever remove them. */
function onEnvironment({ id, name }: Snapshot): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'snapshot.environment',
    message: `${name ?? id} stands on a built environment, and an archive does not carry those`,
    hint: 'build the environment where you need it, and bring the project there',
  })
}

function onImage({ id, name, spec }: Snapshot): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'snapshot.image',
    message: `${name ?? id} stands on the image ${spec.environment.image}, and an archive does not carry images`,
    hint: 'pull the image where you need it, and bring the project there',
  })
}

function noRoom(): AgentPodError {
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

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function damaged(why: string): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'snapshot.damaged',
    message: `the snapshot archive is damaged: ${why}`,
    hint: 'export it again, or copy the file again',
  })
}
