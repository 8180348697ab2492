/**
 * Which images are stored: a file in the state directory, replaced as a whole. A record is written before its
 * layers are imported, so that the layers of an interrupted pull are known.
 */
import { existsSync, readFileSync } from 'node:fs'
import * as z from 'zod'
import { writeDurably } from '../../../util/file/write-durably.ts'

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/)
const hex = z.string().regex(/^[0-9a-f]{64}$/)

const settings = z.object({
  env: z.record(z.string(), z.string()),
  user: z.string().optional(),
  workdir: z.string().optional(),
  command: z.array(z.string()).optional(),
  ports: z.array(z.string()).optional(),
  labels: z.record(z.string(), z.string()).optional(),
  /** Absent in records of earlier versions. */
  config: z.string().optional(),
})

const record = z.object({
  /** In full: docker.io/library/debian:12. */
  ref: z.string(),
  /** False while its layers are imported. */
  isComplete: z.boolean(),
  digest,
  manifestDigest: digest,
  platform: z.string(),
  /** sha256 of the tar files, lowest first, each once. */
  layers: z.array(hex),
  sizeBytes: z.number(),
  settings,
  pulledAt: z.number(),
  usedAt: z.number(),
})
export type ImageRecord = z.infer<typeof record>

const file = z.object({
  version: z.literal(1),
  images: z.array(record),
  /** Unpacked sizes of layers, by digest. */
  sizes: z.record(z.string(), z.number()).default({}),
  /** The layer with programs that images may lack. */
  tools: hex.optional(),
  /** Layers of no image that sandboxes or snapshots still use. */
  leftover: z.array(hex).default([]),
  /** Snapshots that are layers of saved images too, by id; empty if the snapshot has no files of its own. */
  packed: z.record(z.string(), z.string()).default({}),
})

/** Use of an image is noted at most this often. */
const USE_MS = 3_600_000

export class ImageRecords {
  readonly #path: string
  #images: ImageRecord[] = []
  #sizes: Record<string, number> = {}
  #tools: string | undefined
  #leftover: string[] = []
  #packed: Record<string, string> = {}

  constructor(path: string) {
    this.#path = path
    if (!existsSync(path)) return
    // A file that cannot be read is replaced: images are pulled again.
    const read = file.safeParse(parse(readFileSync(path, 'utf8')))
    if (!read.success) return
    this.#images = read.data.images
    this.#sizes = read.data.sizes
    this.#tools = read.data.tools
    this.#leftover = read.data.leftover
    this.#packed = read.data.packed
  }

  all(): readonly ImageRecord[] {
    return this.#images
  }

  find(ref: string): ImageRecord | undefined {
    return this.#images.find((one) => one.ref === ref && one.isComplete)
  }

  put(image: ImageRecord): void {
    // A complete record stays until the new one is complete.
    this.#images = [
      ...this.#images.filter((one) => one.ref !== image.ref || one.isComplete !== image.isComplete),
      image,
    ]
    if (image.isComplete) this.#images = this.#images.filter((one) => one.ref !== image.ref || one.isComplete)
    this.#write()
  }

  /** Forgets a reference. */
  remove({ ref, layers }: ImageRecord): void {
    this.#images = this.#images.filter((one) => one.ref !== ref)
    this.addLeftover(layers)
  }

  /** Forgets everything. */
  clear(): void {
    this.#images = []
    this.#leftover = []
    this.#tools = undefined
    this.#write()
  }

  /** Forgets pulls that were not finished: their layers become leftover. */
  dropUnfinished(isDropped: (image: ImageRecord) => boolean): void {
    const left = this.#images.filter((image) => !image.isComplete && isDropped(image))
    if (left.length === 0) return
    this.#images = this.#images.filter((one) => !left.includes(one))
    this.addLeftover(left.flatMap(({ layers }) => layers))
  }

  /** Layers that have to be removed as soon as nothing uses them. */
  get leftover(): readonly string[] {
    return this.#leftover.filter((one) => !this.isUsed(one))
  }

  addLeftover(layers: readonly string[]): void {
    this.#leftover = [...new Set([...this.#leftover, ...layers])].filter((one) => !this.isUsed(one))
    this.#write()
  }

  removedLayer(layer: string): void {
    this.#leftover = this.#leftover.filter((one) => one !== layer)
    this.#write()
  }

  /** Whether an image has the layer. */
  isUsed(layer: string): boolean {
    return this.#tools === layer || this.#images.some(({ layers }) => layers.includes(layer))
  }

  touch(image: ImageRecord, now: number): void {
    if (now - image.usedAt < USE_MS) return
    this.put({ ...image, usedAt: now })
  }

  sizeOf(layer: string): number {
    return this.#sizes[layer] ?? 0
  }

  noteSize(layer: string, bytes: number): void {
    this.#sizes[layer] = bytes
  }

  /** The layer that has the files of a snapshot; empty if there are none. */
  packedAs(snapshot: string): string | undefined {
    return this.#packed[snapshot]
  }

  notePacked(snapshot: string, layer: string): void {
    this.#packed[snapshot] = layer
  }

  get tools(): string | undefined {
    return this.#tools
  }

  set tools(layer: string | undefined) {
    this.#tools = layer
    this.#write()
  }

  #write(): void {
    const sizes = Object.fromEntries(Object.entries(this.#sizes).filter(([layer]) => this.isUsed(layer)))
    const packed = Object.fromEntries(
      Object.entries(this.#packed).filter(([, layer]) => layer === '' || this.isUsed(layer)),
    )
    const content = {
      version: 1,
      images: this.#images,
      sizes,
      tools: this.#tools,
      leftover: this.#leftover,
      packed,
    }
    writeDurably(this.#path, Buffer.from(JSON.stringify(content)))
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
