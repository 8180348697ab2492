/** Stores the result of a build as an image of this machine: its snapshots become layers, once each. */
import { createHash } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CallOptions } from '../../../core/call.ts'
import { invalid } from '../../../core/error.ts'
import type { SnapshotId } from '../../../core/id.ts'
import type { ImageSource } from '../../../core/provider.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import { layersOf } from '../root.ts'
import type { ImageRecord, ImageRecords } from './image-records.ts'
import { goArch, hexOf, imageConfig, settingsOf } from './pull.ts'
import { convertedLayer, DROPPED, type PackParts } from './push.ts'

export interface SaveParts extends PackParts {
  readonly records: ImageRecords
  /** The layer without files. */
  readonly empty: string
  now(): number
}

const SAVE_MS = 15 * 60_000
const NEVER = 32_503_680_000
/** Directories that a sandbox makes in a root that lacks them. */
const POINTS = ['dev', 'etc', 'proc', 'run', 'sys', 'tmp']

/** The record is complete, and its layers are stored. */
export async function saveImage(
  parts: SaveParts,
  source: ImageSource,
  ref: string,
  o: CallOptions,
): Promise<ImageRecord> {
  const { records, podhost, arch, now } = parts
  const { root, settings } = source
  const below = layersOf(root).filter((one) => one !== parts.tools && one !== parts.empty)
  const isFromNothing = below.length === 0
  const { layers: found } = await podhost.call('layer.list', {}, { timeoutMs: SAVE_MS })
  const present = new Set((found as { digest?: unknown }[]).map(({ digest }) => digest))
  const layers = [...below]
  for (const snapshot of root.over ?? []) {
    const known = records.packedAs(snapshot)
    const layer =
      known !== undefined && (known === '' || present.has(known))
        ? known
        : await pack(parts, snapshot, pointsOf(source, snapshot, isFromNothing), o)
    records.notePacked(snapshot, layer)
    // Of a layer that is there twice the upper one counts.
    if (layer !== '') layers.splice(0, layers.length, ...layers.filter((one) => one !== layer), layer)
  }
  const config = JSON.stringify({
    os: 'linux',
    architecture: goArch(arch),
    ...parseConfig(settings.config),
    rootfs: { type: 'layers', diff_ids: layers.map((one) => `sha256:${one}`) },
  })
  const digest = `sha256:${createHash('sha256').update(config).digest('hex')}`
  const record: ImageRecord = {
    ref,
    isComplete: true,
    digest,
    manifestDigest: digest,
    platform: `linux/${goArch(arch)}`,
    layers: layers.length > 0 ? layers : [parts.empty],
    sizeBytes: layers.reduce((sum, one) => sum + records.sizeOf(one), 0),
    settings: settingsOf(imageConfig.parse(JSON.parse(config)), config),
    pulledAt: now(),
    usedAt: now(),
  }
  records.put(record)
  return record
}

/** With the directories above each one. */
function pointsOf({ mountPoints }: ImageSource, snapshot: SnapshotId, isFromNothing: boolean): string[] {
  const points = new Set(isFromNothing ? POINTS : [])
  for (const path of mountPoints?.get(snapshot) ?? []) {
    const parts = path.split('/').filter((part) => part !== '')
    for (const at of parts.keys()) points.add(parts.slice(0, at + 1).join('/'))
  }
  return [...points]
}

async function pack(
  parts: SaveParts,
  snapshot: SnapshotId,
  points: readonly string[],
  o: CallOptions,
): Promise<string> {
  const { podhost, exchange, records } = parts
  const raw = `image-${randomWord(systemRandom, 16)}.tar`
  const file = `image-${randomWord(systemRandom, 16)}.tar`
  const call = { timeoutMs: SAVE_MS, ...(o.signal && { signal: o.signal }) }
  try {
    await podhost.call('snapshot.export', { id: snapshot, file: raw }, call)
    const files = [openSync(join(exchange, raw), 'r'), openSync(join(exchange, file), 'wx', 0o600)]
    try {
      const { diffId, size, entries } = await convertedLayer(
        parts,
        files,
        {
          prefix: 'root',
          newestTime: NEVER,
          dropped: DROPPED,
          plain: true,
          points,
        },
        o,
      )
      if (entries === 0) return ''
      const digest = hexOf(diffId)
      await podhost.call('layer.import', { digest, file }, call)
      records.noteSize(digest, size)
      return digest
    } finally {
      for (const fd of files) closeSync(fd)
    }
  } finally {
    await rm(join(exchange, raw), { force: true })
    await rm(join(exchange, file), { force: true })
  }
}

function parseConfig(text: string | undefined): object {
  const parsed: unknown = text === undefined ? {} : JSON.parse(text)
  if (typeof parsed !== 'object' || parsed === null)
    throw invalid('image.config', 'the configuration of an image is an object')
  return { config: {}, ...parsed }
}
