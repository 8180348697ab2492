/** Makes images of roots: each layer and each snapshot becomes a layer, with fixed times and order. */
import { createHash } from 'node:crypto'
import { closeSync, createReadStream, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import * as z from 'zod'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { SnapshotId } from '../../../core/id.ts'
import type { ImageSettings, ImageSource } from '../../../core/provider.ts'
import { canonicalJson } from '../../../util/canonical-json.ts'
import { padding, tarEnd, tarHeader } from '../../../util/file/tar-writer.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import type { Podhost } from '../podhost.ts'
import { layersOf } from '../root.ts'
import type { Podimage } from './podimage.ts'
import { goArch } from './pull.ts'

export interface PackParts {
  readonly podhost: Podhost
  readonly podimage: Podimage
  readonly exchange: string
  readonly arch: string
  /** The layer with our own programs, which is no part of an image. */
  readonly tools: string | undefined
}

/** Later times become this one, as in the base `debian`. */
const NEWEST_TIME = 1_700_000_000
const CREATED = '2023-11-14T22:13:20Z'
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const CONFIG = 'application/vnd.oci.image.config.v1+json'
const LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip'
const EXPORT_MS = 15 * 60_000

/**
 * Files that a sandbox gets at each start, or that stand for its own certificate authority.
 *
 * SECURITY: SE-09. Whoever runs the image must not trust the authority of a sandbox.
 */
export const DROPPED = [
  '.agentpod',
  'etc/hostname',
  'etc/hosts',
  'etc/machine-id',
  'etc/resolv.conf',
  'etc/ssl/certs/agentpod.pem',
  'etc/ssl/certs/java/agentpod.p12',
  'usr/local/share/ca-certificates/agentpod.crt',
]

const converted = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  diffId: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.number(),
  entries: z.number(),
})

interface PackedLayer extends z.infer<typeof converted> {
  readonly file: string
}

export interface PackedImage {
  readonly manifest: Buffer
  readonly digest: string
  readonly config: Buffer
  readonly configDigest: string
  readonly layers: readonly PackedLayer[]
  /** Removes the files. */
  release(): Promise<void>
}

export async function packImage(
  parts: PackParts,
  source: ImageSource,
  onProgress: (line: string) => void,
  o: CallOptions,
): Promise<PackedImage> {
  const { root, settings } = source
  if (root['kind'] !== 'layers') throw onHost()
  const { exchange } = parts
  const layers: PackedLayer[] = []
  const release = async (): Promise<void> => {
    for (const { file } of layers) await rm(join(exchange, file), { force: true })
  }
  try {
    const below = layersOf(root).filter((one) => one !== parts.tools)
    const over = root.over ?? []
    const count = below.length + over.length
    for (const digest of below) {
      onProgress(`packing layer ${layers.length + 1} of ${count}`)
      await add(parts, layers, { digest }, o)
    }
    for (const snapshot of over) {
      onProgress(`packing layer ${layers.length + 1} of ${count}`)
      await add(parts, layers, { snapshot }, o)
    }
    return { ...documents(layers, settings, parts.arch), layers, release }
  } catch (error) {
    await release()
    throw error
  }
}

async function add(
  { podhost, podimage, exchange }: PackParts,
  layers: PackedLayer[],
  from: { readonly digest: string } | { readonly snapshot: SnapshotId },
  o: CallOptions,
): Promise<void> {
  const raw = `image-${randomWord(systemRandom, 16)}.tar`
  const file = `image-${randomWord(systemRandom, 16)}.tar`
  const call = { timeoutMs: EXPORT_MS, ...(o.signal && { signal: o.signal }) }
  try {
    if ('digest' in from) await podhost.call('layer.export', { digest: from.digest, file: raw }, call)
    else await podhost.call('snapshot.export', { id: from.snapshot, file: raw }, call)
    const files = [openSync(join(exchange, raw), 'r'), openSync(join(exchange, file), 'wx', 0o600)]
    try {
      const prefix = 'digest' in from ? '' : 'root'
      const how = { prefix, newestTime: NEWEST_TIME, dropped: DROPPED }
      const layer = { ...(await convertedLayer({ podimage }, files, how, o)), file }
      if (layer.entries > 0) layers.push(layer)
      else await rm(join(exchange, file), { force: true })
    } finally {
      for (const fd of files) closeSync(fd)
    }
  } catch (error) {
    await rm(join(exchange, file), { force: true })
    throw error
  } finally {
    await rm(join(exchange, raw), { force: true })
  }
}

/** Turns podhost's archive in the first file into a layer in the second one. */
export async function convertedLayer(
  { podimage }: Pick<PackParts, 'podimage'>,
  files: readonly number[],
  convert: Readonly<Record<string, unknown>>,
  o: CallOptions,
): Promise<z.infer<typeof converted>> {
  const late = AbortSignal.timeout(EXPORT_MS)
  const signal = o.signal ? AbortSignal.any([o.signal, late]) : late
  return converted.parse(await podimage({ op: 'convert', convert }, { files, signal }))
}

type Documents = Pick<PackedImage, 'manifest' | 'digest' | 'config' | 'configDigest'>

function documents(layers: readonly PackedLayer[], settings: ImageSettings, arch: string): Documents {
  const env = Object.entries(settings.env).map(([name, value]) => `${name}=${value}`)
  const whole = settings.config === undefined ? undefined : containerOf(settings.config)
  const config = Buffer.from(
    canonicalJson({
      created: CREATED,
      os: 'linux',
      architecture: goArch(arch),
      config: whole ?? {
        ...(env.length > 0 && { Env: env.toSorted() }),
        ...(settings.user !== undefined && { User: settings.user }),
        ...(settings.workdir ? { WorkingDir: settings.workdir } : {}),
        Cmd: [...(settings.command ?? ['/bin/sh'])],
        ...(settings.ports && { ExposedPorts: Object.fromEntries(settings.ports.map((one) => [one, {}])) }),
        ...(settings.labels && { Labels: settings.labels }),
      },
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
      history: layers.map(() => ({ created: CREATED, created_by: 'agentpod' })),
    }),
  )
  const configDigest = digestOf(config)
  const manifest = Buffer.from(
    canonicalJson({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: { mediaType: CONFIG, digest: configDigest, size: config.length },
      layers: layers.map(({ digest, size }) => ({ mediaType: LAYER, digest, size })),
    }),
  )
  return { manifest, digest: digestOf(manifest), config, configDigest }
}

/** The part of a configuration that says how containers run. */
function containerOf(config: string): object {
  const parsed = JSON.parse(config) as { readonly config?: object }
  return parsed.config ?? {}
}

/** An OCI layout as a tar stream; the image's files are removed at its end. */
export function layoutStream(image: PackedImage, exchange: string): Readable {
  const content = Readable.from(layoutParts(image, exchange))
  content.once('close', () => void image.release())
  return content
}

async function* layoutParts(image: PackedImage, exchange: string): AsyncGenerator<Buffer> {
  const { manifest, digest, config, configDigest, layers } = image
  const index = Buffer.from(
    canonicalJson({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [{ mediaType: MANIFEST, digest, size: manifest.length }],
    }),
  )
  yield* tarFile('oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}'))
  yield* tarFile('index.json', index)
  yield* tarFile(blobName(digest), manifest)
  yield* tarFile(blobName(configDigest), config)
  const written = new Set<string>()
  for (const layer of layers) {
    if (written.has(layer.digest)) continue
    written.add(layer.digest)
    yield layoutHeader(blobName(layer.digest), layer.size)
    for await (const part of createReadStream(join(exchange, layer.file))) yield part as Buffer
    yield padding(layer.size)
  }
  yield tarEnd()
}

function layoutHeader(path: string, size: number): Buffer {
  return tarHeader({ path, size, mode: 0o644, type: '0', time: NEWEST_TIME })
}

const blobName = (digest: string): string => `blobs/${digest.replace(':', '/')}`

function* tarFile(name: string, content: Buffer): Generator<Buffer> {
  yield layoutHeader(name, content.length)
  yield content
  yield padding(content.length)
}

function digestOf(data: Buffer): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`
}

function onHost(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'image.push_base',
    message: 'its base is this machine (host), whose files cannot become an image',
    hint: 'use --base debian or --image, and push that',
  })
}
