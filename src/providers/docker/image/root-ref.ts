/**
 * The root of a sandbox of this provider: an image, or imported layers, lowest first; and snapshots on top.
 */
import * as z from 'zod'
import { AgentPodError } from '../../../core/error.ts'
import { isSnapshotId, type SnapshotId } from '../../../core/id.ts'

const DIGEST = /^[0-9a-f]{64}$/
export const IMAGE_ID = /^sha256:[0-9a-f]{64}$/
const MOST_LAYERS = 100

const SNAPSHOTS: z.ZodType<SnapshotId[]> = z
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
    message: 'this root does not belong to the provider docker',
    hint: 'snapshots and environments of another provider cannot be used here; create them again with docker',
  })
}

/** The stored form, without an empty `over`. */
export function rootRef(root: DockerRoot): Readonly<Record<string, unknown>> {
  const { over, ...rest } = root
  return over.length === 0 ? rest : { ...rest, over }
}

/** The snapshots in our label; a label that cannot be parsed counts as none. */
export function overIn(label: string | undefined): readonly SnapshotId[] {
  try {
    return parseRoot(JSON.parse(label ?? '')).over
  } catch {
    return []
  }
}

/** The layers in our label. */
export function layersIn(label: string | undefined): readonly string[] {
  try {
    const root = parseRoot(JSON.parse(label ?? ''))
    return 'layers' in root ? root.layers : []
  } catch {
    return []
  }
}
