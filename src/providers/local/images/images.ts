/** The images of this machine: pulled by podimage, stored as layers in podhost. */
import { createHash } from 'node:crypto'
import { closeSync, openSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError } from '../../../core/error.ts'
import { atDigest, type ImageRef, imageText, parseImageRef, unknownImage } from '../../../core/image-ref.ts'
import {
  EMPTY_IMAGE,
  type Image,
  type Images,
  type PullOptions,
  type StoredImage,
  type StoredImages,
} from '../../../core/provider.ts'
import { systemClock } from '../../../util/clock.ts'
import { packTar } from '../../../util/file/tar-writer.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import type { Podhost } from '../podhost.ts'
import { layersRoot } from '../root.ts'
import { fetchFeature } from './feature.ts'
import { gitLayer } from './git-layer.ts'
import { type ImageRecord, ImageRecords } from './image-records.ts'
import type { Podimage } from './podimage.ts'
import { ImagePulls, removeLeftover } from './pull.ts'
import { layoutStream, packImage } from './push.ts'
import { endpointsOf, type Registries } from './registries.ts'
import { saveImage } from './save.ts'

export interface LocalImagesOptions {
  readonly podimage: Podimage
  readonly registries: Registries
  /** The file with the list of images. */
  readonly recordsFile: string
  readonly arch: string
  /** For the PATH, on which this machine's git is. */
  readonly env: Readonly<Record<string, string | undefined>>
}

const ASK = { timeoutMs: 20_000 }
const IMPORT = { timeoutMs: 5 * 60_000 }
const PUSH_MS = 60 * 60_000
/** Unfinished pulls are kept this long, and their downloads at most this much. */
const PART_MS = 24 * 3_600_000
const MOST_PART_BYTES = 16 * 1024 ** 3

const pushed = z.object({ digest: z.string() })

export interface LocalImages extends Images {
  /** Called when all layers are gone. */
  forget(): void
}

export function localImages(podhost: Podhost, exchange: string, options: LocalImagesOptions): LocalImages {
  const { podimage, registries, arch } = options
  const records = new ImageRecords(options.recordsFile)
  const now = (): number => systemClock.now()
  const pulls = new ImagePulls({ podhost, podimage, records, registries, exchange, arch, now })
  let swept: Promise<void> | undefined
  /** Once, before the first use: a server that nobody asks for images does not look for them. */
  const sweep = (): Promise<void> => {
    swept ??= (async () => {
      sweepFiles(exchange)
      records.dropUnfinished(({ pulledAt }) => now() - pulledAt > PART_MS)
      await removeLeftover(podhost, records)
    })()
    return swept
  }

  let tools: Promise<string | undefined> | undefined
  /** The layer with git, imported once. */
  const toolsLayer = (): Promise<string | undefined> => {
    tools ??= importTools(podhost, exchange, records, options.env).catch((error) => {
      tools = undefined
      throw error
    })
    return tools
  }

  const present = async (record: ImageRecord): Promise<boolean> =>
    (await pulls.present(record.layers, ASK)).size === record.layers.length

  let empty: Promise<void> | undefined
  /** The layer without files, imported once. */
  const emptyLayer = (): Promise<void> => {
    empty ??= importEmpty(podhost, exchange).catch((error) => {
      empty = undefined
      throw error
    })
    return empty
  }

  const remove = async (ref: string): Promise<StoredImage> => {
    await sweep()
    const record = records.find(imageText(parseImageRef(ref)))
    if (!record) throw unknownImage(ref)
    records.remove(record)
    await removeLeftover(podhost, records)
    return storedOf(record, records.tools)
  }

  const store: StoredImages = {
    async pull(ref, onProgress, o) {
      await sweep()
      const name = parseImageRef(ref)
      const earlier = records.find(imageText(name))
      // What a digest names never changes.
      if (earlier && name.digest !== undefined && (await present(earlier)))
        return storedOf(earlier, records.tools)
      const record = await pulls.pull(name, onProgress, o)
      if (earlier) records.addLeftover(earlier.layers)
      await removeLeftover(podhost, records)
      return storedOf(record, records.tools)
    },
    list: async () =>
      records
        .all()
        .filter(({ isComplete }) => isComplete)
        .map((record) => storedOf(record, records.tools)),
    remove,
    async push(source, ref, onProgress, o) {
      const name = parseImageRef(ref)
      if (name.digest !== undefined) throw noTag(ref)
      const parts = { podhost, podimage, exchange, arch, tools: records.tools }
      const image = await packImage(parts, source, onProgress, o)
      const files = image.layers.map(({ file }) => openSync(join(exchange, file), 'r'))
      try {
        onProgress(`pushing ${image.layers.length} layers to ${name.registry}`)
        const endpoints = await endpointsOf(name.registry, registries, { useMirrors: false })
        const push = {
          manifest: image.manifest.toString('base64'),
          config: image.config.toString('base64'),
        }
        const late = AbortSignal.timeout(PUSH_MS)
        const answer = await podimage(
          { op: 'push', endpoints, repository: name.repository, reference: name.tag, push },
          { files, onProgress, signal: o.signal ? AbortSignal.any([o.signal, late]) : late },
        )
        return pushed.parse(answer)
      } finally {
        for (const fd of files) closeSync(fd)
        await image.release()
      }
    },
    async save(source, ref, onProgress, o) {
      await sweep()
      const name = parseImageRef(ref)
      if (name.digest !== undefined) throw noTag(ref)
      const text = imageText(name)
      if (text === EMPTY_IMAGE) throw reservedName(ref)
      onProgress(`storing the image ${text}`)
      const earlier = records.find(text)
      const parts = {
        podhost,
        podimage,
        exchange,
        arch,
        tools: records.tools,
        records,
        empty: EMPTY.digest,
        now,
      }
      const record = await saveImage(parts, source, text, o)
      if (earlier) records.addLeftover(earlier.layers)
      await removeLeftover(podhost, records)
      return storedOf(record, records.tools)
    },
    feature: (ref, o) => fetchFeature({ podimage, registries, exchange }, ref, o),
    async layout(source, o) {
      const parts = { podhost, podimage, exchange, arch, tools: records.tools }
      return layoutStream(await packImage(parts, source, () => undefined, o), exchange)
    },
  }

  return {
    async ensure(ref, onProgress, o): Promise<Image> {
      await sweep()
      const name = parseImageRef(ref)
      if (imageText(name) === EMPTY_IMAGE) {
        await emptyLayer()
        return emptyImage(await toolsLayer())
      }
      const record = await stored(name, onProgress, o)
      if (record.layers.includes(EMPTY.digest)) await emptyLayer()
      records.touch(record, now())
      return imageOf(record, await toolsLayer())
    },
    store,
    forget() {
      records.clear()
      tools = undefined
    },
  }

  /** Records of earlier versions lack the configuration. A pull gets it, if the image is still the same. */
  async function withConfig(known: ImageRecord, name: ImageRef, o: PullOptions): Promise<ImageRecord> {
    try {
      return await pulls.pull(atDigest(name, known.digest), () => undefined, o)
    } catch {
      return known
    }
  }

  async function stored(
    name: ImageRef,
    onProgress: (line: string) => void,
    o: PullOptions,
  ): Promise<ImageRecord> {
    const known = records.find(imageText(name)) ?? byDigest(records, name)
    if (known && (await present(known))) return known.settings.config ? known : withConfig(known, name, o)
    return pulls.pull(name, onProgress, o)
  }
}

const EMPTY = emptyTar()
const EMPTY_CONFIG = JSON.stringify({ os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: [] } })

function emptyTar(): { readonly digest: string; readonly tar: Buffer } {
  const tar = packTar([])
  return { digest: createHash('sha256').update(tar).digest('hex'), tar }
}

function emptyImage(tools: string | undefined): Image {
  const layers = tools === undefined ? [EMPTY.digest] : [EMPTY.digest, tools]
  return {
    ref: EMPTY_IMAGE,
    digest: `sha256:${EMPTY.digest}`,
    root: layersRoot(layers),
    env: {},
    config: EMPTY_CONFIG,
  }
}

async function importEmpty(podhost: Podhost, exchange: string): Promise<void> {
  const file = `image-${randomWord(systemRandom, 16)}.tar`
  try {
    await writeFile(join(exchange, file), EMPTY.tar, { mode: 0o600, flag: 'wx' })
    await podhost.call('layer.import', { digest: EMPTY.digest, file }, IMPORT)
  } finally {
    await rm(join(exchange, file), { force: true })
  }
}

/** An image that was pulled by a tag is the same image by its digest. */
function byDigest(
  records: ImageRecords,
  { registry, repository, digest }: ImageRef,
): ImageRecord | undefined {
  if (digest === undefined) return undefined
  return records.all().find((one) => {
    if (!one.isComplete || (one.digest !== digest && one.manifestDigest !== digest)) return false
    const other = parseImageRef(one.ref)
    return other.registry === registry && other.repository === repository
  })
}

function imageOf({ ref, digest, layers, settings }: ImageRecord, tools: string | undefined): Image {
  return { ref, digest, root: layersRoot(tools === undefined ? layers : [...layers, tools]), ...settings }
}

function storedOf(record: ImageRecord, tools: string | undefined): StoredImage {
  const { manifestDigest, platform, layers, sizeBytes, pulledAt, usedAt } = record
  return { ...imageOf(record, tools), manifestDigest, platform, layers, sizeBytes, pulledAt, usedAt }
}

async function importTools(
  podhost: Podhost,
  exchange: string,
  records: ImageRecords,
  env: LocalImagesOptions['env'],
): Promise<string | undefined> {
  const layer = await gitLayer(env)
  if (!layer) return undefined
  const file = `image-${randomWord(systemRandom, 16)}.tar`
  try {
    await writeFile(join(exchange, file), layer.tar, { mode: 0o600, flag: 'wx' })
    await podhost.call('layer.import', { digest: layer.digest, file }, IMPORT)
  } finally {
    await rm(join(exchange, file), { force: true })
  }
  const former = records.tools
  records.tools = layer.digest
  if (former !== undefined) records.addLeftover([former])
  return layer.digest
}

/** Removes files that an earlier server left, except recent downloads that can be continued. */
function sweepFiles(exchange: string): void {
  const parts: { path: string; bytes: number; at: number }[] = []
  for (const name of readdirSync(exchange)) {
    if (!name.startsWith('image-')) continue
    const path = join(exchange, name)
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) continue
    if (name.endsWith('.part') && systemClock.now() - found.mtimeMs < PART_MS)
      parts.push({ path, bytes: found.size, at: found.mtimeMs })
    else rmSync(path, { force: true })
  }
  let bytes = 0
  for (const part of parts.toSorted((a, b) => b.at - a.at)) {
    bytes += part.bytes
    if (bytes > MOST_PART_BYTES) rmSync(part.path, { force: true })
  }
}

function reservedName(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'image.reserved',
    message: `${ref} is the name of the empty image`,
    hint: 'choose another name',
  })
}

function noTag(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'image.reference',
    message: `${ref} names a digest; a push needs a tag`,
    hint: 'write it like ghcr.io/owner/name:tag; the digest is printed at the end',
  })
}
