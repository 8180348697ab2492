/**
 * Composes one image from the layers of several, such as an agent's tools over a project's environment. The
 * daemon gets an archive for `docker load` that names every layer and contains only those it does not have in
 * this position yet.
 */

import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import { padding, tarEnd, tarHeader } from '../../../util/file/tar-writer.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import { callSignal } from '../daemon/call-signal.ts'
import type { Daemon } from '../daemon/daemon.ts'
import { followProgress } from '../daemon/progress.ts'
import type { ImageInfo } from './image-store.ts'
import { readTar } from './tar.ts'

/** A layer of the result, and an image that contains it. */
export interface StackedLayer {
  readonly diffId: string
  readonly source: ImageInfo
}

export interface Composition {
  readonly tag: string
  readonly stack: readonly StackedLayer[]
  readonly labels: Readonly<Record<string, string>>
  /** The image whose variables and directory the result gets. */
  readonly base: ImageInfo
}

/** How many of the lowest layers the daemon already has in this order. */
export function sharedLayers(stack: readonly StackedLayer[]): number {
  const counts = stack.map(({ source }) => {
    const differs = stack.findIndex(({ diffId }, index) => source.layers[index] !== diffId)
    return differs < 0 ? stack.length : differs
  })
  return Math.max(0, ...counts)
}

export async function compose(daemon: Daemon, composition: Composition, o: CallOptions): Promise<void> {
  const missing = composition.stack.slice(sharedLayers(composition.stack))
  const directory = await mkdtemp(join(tmpdir(), 'agentpod-compose-'))
  try {
    const files = await fetchLayers(daemon, missing, directory, o)
    await loadImage(daemon, loadArchive(composition, files), o)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

export async function loadImage(
  daemon: Daemon,
  archive: AsyncIterable<Buffer>,
  o: CallOptions,
): Promise<void> {
  const body = Readable.from(archive, { objectMode: false })
  try {
    const ask = { method: 'POST', path: '/images/load', query: { quiet: '1' }, archive: body } as const
    await followProgress(await daemon.stream(ask, o, callSignal(o)))
  } finally {
    body.destroy()
  }
}

/** Layers as files, by the digest of their content. Each source is read once. */
export async function fetchLayers(
  daemon: Daemon,
  wanted: readonly StackedLayer[],
  directory: string,
  o: CallOptions,
): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>()
  for (const source of new Set(wanted.map((layer) => layer.source))) {
    const left = new Set(wanted.filter((one) => one.source === source).map(({ diffId }) => diffId))
    await saveLayers(daemon, source, { left, directory, files }, o)
    if (left.size > 0) throw layerMissing()
  }
  return files
}

/**
 * The daemon exports only whole images, in older versions with arbitrary file names, so layers are found by
 * digest.
 */
async function saveLayers(
  daemon: Daemon,
  source: ImageInfo,
  {
    left,
    ...to
  }: { readonly left: Set<string>; readonly directory: string; readonly files: Map<string, string> },
  o: CallOptions,
): Promise<void> {
  const ended = new AbortController()
  const signal = AbortSignal.any([callSignal(o), ended.signal])
  try {
    const ask = { method: 'GET', path: `/images/${encodeURIComponent(source.id)}/get` } as const
    for await (const entry of readTar(await daemon.stream(ask, o, signal))) {
      if (entry.type !== '0' || !mayBeLayer(entry.path, left)) continue
      const file = join(to.directory, `${to.files.size}.tar`)
      const digest = await spool(entry.content(), file)
      if (left.delete(digest)) to.files.set(digest, file)
      else await rm(file)
      if (left.size === 0) return
    }
  } finally {
    ended.abort()
  }
}

/** `ID/layer.tar` before Docker 25, `blobs/sha256/DIGEST` since. */
function mayBeLayer(path: string, wanted: ReadonlySet<string>): boolean {
  const blob = /^blobs\/sha256\/([0-9a-f]{64})$/.exec(path)?.[1]
  return blob === undefined ? path.endsWith('/layer.tar') : wanted.has(`sha256:${blob}`)
}

/** Writes content to a file and returns its digest. */
export async function spool(content: AsyncIterable<Buffer>, file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(
    content,
    async function* (chunks) {
      for await (const chunk of chunks) {
        hash.update(chunk as Buffer)
        yield chunk
      }
    },
    createWriteStream(file, { mode: 0o600 }),
  )
  return `sha256:${hash.digest('hex')}`
}

/** The archive for `docker load`. The daemon already has the layers that are not in `files`. */
export async function* loadArchive(
  { tag, stack, labels, base }: Composition,
  files: ReadonlyMap<string, string>,
): AsyncGenerator<Buffer> {
  const config = Buffer.from(
    JSON.stringify({
      architecture: base.architecture,
      os: base.os,
      config: { Env: base.env, WorkingDir: base.workdir, User: base.user, Labels: labels },
      rootfs: { type: 'layers', diff_ids: stack.map(({ diffId }) => diffId) },
      history: stack.map(() => ({ created: '2000-01-01T00:00:00Z', created_by: 'agentpod' })),
    }),
  )
  const name = `${sha256Hex(config)}.json`
  const pathOf = (diffId: string): string => `${diffId.slice('sha256:'.length)}/layer.tar`
  const manifest = [{ Config: name, RepoTags: [tag], Layers: stack.map(({ diffId }) => pathOf(diffId)) }]
  yield* smallFile(name, config)
  for (const [diffId, file] of files) {
    const { size } = await stat(file)
    yield tarHeader({ path: pathOf(diffId), mode: 0o644, size, type: '0' })
    yield* createReadStream(file) as AsyncIterable<Buffer>
    yield padding(size)
  }
  yield* smallFile('manifest.json', Buffer.from(JSON.stringify(manifest)))
  yield tarEnd()
}

function* smallFile(path: string, content: Buffer): Generator<Buffer> {
  yield tarHeader({ path, mode: 0o644, size: content.length, type: '0' })
  yield content
  yield padding(content.length)
}

function layerMissing(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'docker.layers',
    message: 'this Docker daemon does not export the layers of its images unchanged',
    hint: 'turn off its containerd image store ("features": {"containerd-snapshotter": false} in daemon.json)',
  })
}
