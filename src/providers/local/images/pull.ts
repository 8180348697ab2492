/**
 * Gets images from registries into podhost's layers. Each layer is stored once, under the digest of its tar
 * file, whichever images have it. What a broken download left is used by the next one.
 */
import { closeSync, constants, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import { type ImageRef, imageText } from '../../../core/image-ref.ts'
import type { PullOptions } from '../../../core/provider.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import type { Podhost } from '../podhost.ts'
import type { ImageRecord, ImageRecords } from './image-records.ts'
import type { Podimage } from './podimage.ts'
import { endpointsOf, type Registries, type RegistryEndpoint } from './registries.ts'

export interface PullParts {
  readonly podhost: Podhost
  readonly podimage: Podimage
  readonly records: ImageRecords
  readonly registries: Registries
  /** Where files for podhost are, and unfinished downloads. */
  readonly exchange: string
  readonly arch: string
  now(): number
}

/** podhost stacks at most 128 layers and snapshots. */
const MOST_LAYERS = 112
const GIB = 1024 ** 3
const LIMITS = { layers: MOST_LAYERS, imageBytes: 64 * GIB, unpackedBytes: 64 * GIB }
const AT_ONCE = 3
const REMOVE = { timeoutMs: 60_000 }
/** Unpacking and storing a layer. */
const IMPORT_MS = 15 * 60_000

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/)
const layer = z.object({ digest, size: z.number(), mediaType: z.string(), diffId: digest })
export const imageConfig = z.object({
  os: z.string(),
  architecture: z.string(),
  variant: z.string().optional(),
  config: z.object({
    User: z.string().optional(),
    Env: z.array(z.string()).optional(),
    Entrypoint: z.array(z.string()).optional(),
    Cmd: z.array(z.string()).optional(),
    WorkingDir: z.string().optional(),
    ExposedPorts: z.record(z.string(), z.unknown()).optional(),
    Labels: z.record(z.string(), z.string()).optional(),
  }),
})
type ImageConfig = z.infer<typeof imageConfig>
const resolved = z.object({
  digest,
  manifestDigest: digest,
  config: imageConfig,
  rawConfig: z.string(),
  layers: z.array(layer),
})
type Resolved = z.infer<typeof resolved>
type RemoteLayer = z.infer<typeof layer>
const fetched = z.object({ sizeBytes: z.number() })

type Progress = (line: string) => void

interface Pull {
  readonly promise: Promise<ImageRecord>
  readonly listeners: Set<Progress>
  /** Callers that still wait for it. */
  waiting: number
  readonly stop: AbortController
}

export class ImagePulls {
  readonly #parts: PullParts
  readonly #pulls = new Map<string, Pull>()
  readonly #layers = new Map<string, Promise<void>>()

  constructor(parts: PullParts) {
    this.#parts = parts
  }

  /**
   * Callers that arrive during a pull of the same reference wait for it, and see its progress from then on.
   * It ends early when all of them have left.
   */
  pull(ref: ImageRef, onProgress: Progress, o: PullOptions): Promise<ImageRecord> {
    // What one caller is refused, another may get with the credential.
    const key = `${o.isAnonymous ? 'anonymous ' : ''}${imageText(ref)}`
    const pull = this.#pulls.get(key) ?? this.#begin(key, ref, o)
    pull.listeners.add(onProgress)
    pull.waiting += 1
    o.signal?.addEventListener('abort', () => {
      pull.listeners.delete(onProgress)
      pull.waiting -= 1
      if (pull.waiting === 0) pull.stop.abort()
    })
    return pull.promise
  }

  #begin(key: string, ref: ImageRef, o: PullOptions): Pull {
    const listeners = new Set<Progress>()
    const tell = (text: string): void => {
      for (const listener of listeners) listener(text)
    }
    const stop = new AbortController()
    const promise = this.#pull(ref, tell, { ...o, signal: stop.signal }).finally(() =>
      this.#pulls.delete(key),
    )
    const pull = { promise, listeners, stop, waiting: 0 }
    this.#pulls.set(key, pull)
    return pull
  }

  /** Which of the layers podhost has. */
  async present(layers: readonly string[], o: CallOptions): Promise<Set<string>> {
    const { layers: found } = await this.#parts.podhost.call('layer.list', {}, o)
    const there = new Set((found as { digest?: unknown }[]).map((one) => one.digest))
    return new Set(layers.filter((one) => there.has(one)))
  }

  async #pull(ref: ImageRef, tell: Progress, o: PullOptions): Promise<ImageRecord> {
    const { podimage, records, registries, arch, now } = this.#parts
    const name = imageText(ref)
    tell(`looking for ${name}`)
    const signal = deadline(o)
    const endpoints = await endpointsOf(ref.registry, registries, {
      useMirrors: true,
      isAnonymous: o.isAnonymous,
    })
    const asked = { endpoints, repository: ref.repository, limits: LIMITS }
    const found = resolved.parse(
      await podimage(
        {
          op: 'resolve',
          ...asked,
          reference: ref.digest ?? ref.tag,
          platform: { os: 'linux', architecture: goArch(arch) },
        },
        { signal, onProgress: tell },
      ),
    )
    const layers = distinctLayers(found.layers)
    const intent: ImageRecord = {
      ref: name,
      isComplete: false,
      digest: found.digest,
      manifestDigest: found.manifestDigest,
      platform: platformOf(found),
      layers: layers.map(({ diffId }) => hexOf(diffId)),
      sizeBytes: 0,
      settings: settingsOf(found.config, found.rawConfig),
      pulledAt: now(),
      usedAt: now(),
    }
    records.put(intent)
    try {
      await this.#layersOf(layers, { ...asked, tell, signal })
    } catch (error) {
      await this.#undo(name, layers, error)
      throw error
    }
    const sizeBytes = intent.layers.reduce((sum, one) => sum + records.sizeOf(one), 0)
    const complete = { ...intent, isComplete: true, sizeBytes, pulledAt: now(), usedAt: now() }
    records.put(complete)
    return complete
  }

  #partOf(blob: string): string {
    return join(this.#parts.exchange, `image-${hexOf(blob)}.part`)
  }

  /** What arrived of an image that can never be complete is removed. */
  async #undo(name: string, layers: readonly RemoteLayer[], error: unknown): Promise<void> {
    if (isResumable(error)) return
    const { podhost, records } = this.#parts
    for (const { digest: blob, diffId } of layers)
      if (!this.#layers.has(diffId)) await rm(this.#partOf(blob), { force: true })
    records.dropUnfinished(({ ref }) => ref === name)
    await removeLeftover(podhost, records)
  }

  async #layersOf(
    layers: readonly RemoteLayer[],
    o: {
      readonly endpoints: readonly RegistryEndpoint[]
      readonly repository: string
      readonly limits: object
      readonly tell: Progress
      readonly signal: AbortSignal
    },
  ): Promise<void> {
    const ids = layers.map(({ diffId }) => hexOf(diffId))
    const present = await this.present(ids, { timeoutMs: 20_000, signal: o.signal })
    const missing = layers.filter(({ diffId }) => !present.has(hexOf(diffId)))
    const progress = new TransferProgress(missing, o.tell)
    const stop = new AbortController()
    const signal = AbortSignal.any([o.signal, stop.signal])
    const queue = [...missing]
    let failure: unknown
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const one = next
        try {
          await this.#shared(one, () =>
            this.#fetch(one, { ...o, signal, onBytes: (bytes) => progress.received(one, bytes) }),
          )
          progress.done(one)
        } catch (error) {
          failure ??= error
          stop.abort()
          return
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    if (failure) throw failure
  }

  /** Images that are pulled at the same time and share a layer get it once. */
  #shared({ diffId }: RemoteLayer, fetch: () => Promise<void>): Promise<void> {
    const under = this.#layers.get(diffId)
    // If the other pull fails or is canceled, this one tries for itself.
    if (under) return under.catch(() => this.#shared({ diffId } as RemoteLayer, fetch))
    const work = fetch().finally(() => this.#layers.delete(diffId))
    this.#layers.set(diffId, work)
    return work
  }

  async #fetch(
    one: RemoteLayer,
    o: {
      readonly endpoints: readonly RegistryEndpoint[]
      readonly repository: string
      readonly limits: object
      readonly tell: Progress
      readonly signal: AbortSignal
      onBytes(bytes: number): void
    },
  ): Promise<void> {
    const { exchange, podimage, podhost, records } = this.#parts
    const blob = this.#partOf(one.digest)
    const tar = `image-${randomWord(systemRandom, 16)}.tar`
    const files = [
      openSync(blob, constants.O_RDWR | constants.O_CREAT, 0o600),
      openSync(join(exchange, tar), 'wx', 0o600),
    ]
    try {
      const { endpoints, repository, limits } = o
      const answer = await podimage(
        { op: 'layer', endpoints, repository, limits, layer: one },
        { files, signal: o.signal, onProgress: o.tell, onBytes: o.onBytes },
      )
      const { sizeBytes } = fetched.parse(answer)
      // podhost reads the file under its name.
      await podhost
        .call('layer.import', { digest: hexOf(one.diffId), file: tar }, { timeoutMs: IMPORT_MS })
        .catch((error: unknown) => {
          throw isAgentPodError(error, 'invalid_argument') ? unusable(error) : error
        })
      records.noteSize(hexOf(one.diffId), sizeBytes)
      await rm(blob, { force: true })
    } catch (error) {
      if (!isResumable(error)) await rm(blob, { force: true })
      throw error
    } finally {
      for (const fd of files) closeSync(fd)
      await rm(join(exchange, tar), { force: true })
    }
  }
}

/** Layers that sandboxes or snapshots still use stay; the next removal tries again. */
export async function removeLeftover(podhost: Podhost, records: ImageRecords): Promise<void> {
  for (const digest of records.leftover) {
    try {
      await podhost.call('layer.remove', { digest }, REMOVE)
      records.removedLayer(digest)
    } catch (error) {
      if (!isAgentPodError(error, 'conflict')) throw error
    }
  }
}

/** Whether what was downloaded is worth keeping for the next pull. */
function isResumable(error: unknown): boolean {
  return (
    isAgentPodError(error, 'unavailable') ||
    isAgentPodError(error, 'canceled') ||
    isAgentPodError(error, 'deadline_exceeded')
  )
}

function unusable(cause: AgentPodError): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'image.layer',
    message: `a layer of the image cannot be used: ${cause.message}`,
    hint: 'the image is damaged, or made to harm; nothing of it was used',
    cause,
  })
}

/** Of layers that an image has twice the upper one counts: it has everything that the lower one has. */
function distinctLayers(layers: readonly RemoteLayer[]): RemoteLayer[] {
  return layers.filter(({ diffId }, at) => !layers.slice(at + 1).some((later) => later.diffId === diffId))
}

function deadline({ signal, timeoutMs }: CallOptions): AbortSignal {
  const late = AbortSignal.timeout(timeoutMs)
  return signal ? AbortSignal.any([signal, late]) : late
}

export function hexOf(text: string): string {
  return text.slice('sha256:'.length)
}

/** The architecture as images name it. */
export function goArch(arch: string): string {
  return arch === 'x64' ? 'amd64' : arch
}

function platformOf({ config: { os, architecture, variant } }: Resolved): string {
  return [os, architecture, ...(variant ? [variant] : [])].join('/')
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/
const PORT = /^[0-9]{1,5}(?:\/(?:tcp|udp|sctp))?$/

/** What an image asks for, as far as a sandbox can give it. */
export function settingsOf({ config }: ImageConfig, raw: string): ImageRecord['settings'] {
  const env: Record<string, string> = {}
  for (const text of config.Env ?? []) {
    const at = text.indexOf('=')
    const name = at < 0 ? text : text.slice(0, at)
    if (VARIABLE.test(name) && !text.includes('\0')) env[name] = at < 0 ? '' : text.slice(at + 1)
  }
  const command = [...(config.Entrypoint ?? []), ...(config.Cmd ?? [])]
  const workdir = config.WorkingDir?.startsWith('/') ? config.WorkingDir : undefined
  const ports = Object.keys(config.ExposedPorts ?? {}).filter((one) => PORT.test(one))
  return {
    env,
    ...(config.User ? { user: config.User } : {}),
    ...(workdir === undefined ? {} : { workdir }),
    ...(command.length > 0 && { command }),
    ...(ports.length > 0 && { ports: ports.toSorted() }),
    ...(config.Labels && { labels: config.Labels }),
    config: raw,
  }
}

const SAY_EVERY_MS = 500

/** One line for all layers of an image. */
class TransferProgress {
  readonly #sizes: Map<string, number>
  readonly #received = new Map<string, number>()
  readonly #tell: Progress
  readonly #total: number
  #done = 0
  #saidAt = 0

  constructor(layers: readonly RemoteLayer[], tell: Progress) {
    this.#sizes = new Map(layers.map((one) => [one.digest, one.size]))
    this.#total = layers.reduce((sum, { size }) => sum + size, 0)
    this.#tell = tell
    if (layers.length > 0) this.#say()
  }

  received({ digest: id }: RemoteLayer, bytes: number): void {
    this.#received.set(id, bytes)
    if (performance.now() - this.#saidAt > SAY_EVERY_MS) this.#say()
  }

  done({ digest: id, size }: RemoteLayer): void {
    this.#received.set(id, size)
    this.#done += 1
    this.#say()
  }

  #say(): void {
    this.#saidAt = performance.now()
    const bytes = [...this.#received.values()].reduce((sum, one) => sum + one, 0)
    const mib = (count: number): string => (count / 1024 ** 2).toFixed(1)
    this.#tell(
      `layers: ${this.#done} of ${this.#sizes.size} stored, ${mib(bytes)} of ${mib(this.#total)} MiB received`,
    )
  }
}
