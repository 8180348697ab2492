/** What a sandbox of this provider stands on: an image, or layers that were imported, lowest first, and snapshots over that. */
import { z } from 'zod'
import { AgentPodError } from '../../core/error.ts'
import { isSnapshotId, type SnapshotId } from '../../core/id.ts'

const DIGEST = /^[0-9a-f]{64}$/
export const IMAGE_ID = /^sha256:[0-9a-f]{64}$/
const MOST_LAYERS = 100

const SNAPSHOTS = z
  .array(z.string().refine(isSnapshotId))
  .max(MOST_LAYERS)
  .optional()
  .transform((ids) => (ids ?? []) as SnapshotId[])

const ROOT = z.union([
  z.strictObject({ image: z.string().regex(IMAGE_ID), over: SNAPSHOTS }),
  z.strictObject({ layers: z.array(z.string().regex(DIGEST)).min(1).max(MOST_LAYERS), over: SNAPSHOTS }),
])
export type DockerRoot = z.infer<typeof ROOT>

export function parseRoot(value: unknown): DockerRoot {
  const parsed = ROOT.safeParse(value)
  if (parsed.success) return parsed.data
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'root.foreign',
    message: 'this is no root of the provider docker',
    hint: 'a root belongs to the provider that gave it; snapshots and environments of another one have to be made anew',
  })
}

/** As it is stored: without `over` where there is none. */
export function rootRef(root: DockerRoot): Readonly<Record<string, unknown>> {
  const { over, ...rest } = root
  return over.length === 0 ? rest : { ...rest, over }
}

/** The snapshots that a label of ours names; what is not ours to read counts as none. */
export function overIn(label: string | undefined): readonly SnapshotId[] {
  try {
    return parseRoot(JSON.parse(label ?? '')).over
  } catch {
    return []
  }
}

/** The layers that a label of ours names. */
export function layersIn(label: string | undefined): readonly string[] {
  try {
    const root = parseRoot(JSON.parse(label ?? ''))
    return 'layers' in root ? root.layers : []
  } catch {
    return []
  }
}
