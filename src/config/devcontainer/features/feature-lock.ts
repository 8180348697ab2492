/** `devcontainer-lock.json`: the digests of Features, in the text that the official command writes. */
import * as z from 'zod'
import type { JsonObject } from '../../../util/untrusted-json.ts'
import { type JsoncSource, parseJsonc } from '../../jsonc/jsonc-file.ts'
import { featureResource } from './feature-reference.ts'
import type { ResolvedFeature } from './feature-resolver.ts'

const lockedFeature = z.looseObject({
  version: z.string().max(256).optional(),
  resolved: z.string().max(2048),
  integrity: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256: and 64 hexadecimal digits'),
  dependsOn: z.array(z.string().max(512)).max(256).optional(),
})
const lockSchema = z.looseObject({
  features: z
    .record(z.string().max(512), lockedFeature)
    .refine((map) => Object.keys(map).length <= 1000, 'has more than 1000 entries'),
})
export type FeatureLock = z.infer<typeof lockSchema>

/** Undefined for an empty file, which the official command takes as a wish for a lock. */
export function parseFeatureLock(source: JsoncSource): FeatureLock | undefined {
  return source.text.trim() === '' ? undefined : parseJsonc(source, lockSchema).data
}

/** The digest that a Feature is locked to, by its reference as it is written. */
export function lockedDigest(lock: FeatureLock | undefined, written: string): string | undefined {
  return lock && Object.hasOwn(lock.features, written) ? lock.features[written]?.integrity : undefined
}

/** These Features, and those that they depend on as far as the lockfile says. */
export function withLockedDependencies(
  names: readonly string[],
  lock: FeatureLock | undefined,
): readonly string[] {
  const all = new Set(names)
  // A set that grows while it is iterated over: each name is looked at once.
  for (const name of all) {
    const entry = lock && Object.hasOwn(lock.features, name) ? lock.features[name] : undefined
    for (const other of entry?.dependsOn ?? []) if (all.size < MOST_NAMED) all.add(other)
  }
  return [...all]
}

const MOST_NAMED = 1000

/** The text of the lockfile. Folders are not locked: they are part of the project. */
export function featureLockText(features: readonly ResolvedFeature[]): string {
  const entries = features
    .flatMap((feature) => {
      const entry = lockEntry(feature)
      return entry ? [[feature.reference.written, entry] as const] : []
    })
    .toSorted(([one], [other]) => one.localeCompare(other, 'en'))
  return `${JSON.stringify({ features: Object.fromEntries(entries) }, null, 2)}\n`
}

function lockEntry({ reference, metadata, digest }: ResolvedFeature): JsonObject | undefined {
  if (reference.kind === 'folder') return undefined
  const resource = featureResource(reference)
  const dependsOn = Object.keys(metadata.properties.dependsOn ?? {})
  return {
    version: metadata.properties.version,
    resolved: reference.kind === 'registry' ? `${resource}@${digest}` : resource,
    integrity: digest,
    ...(dependsOn.length > 0 && { dependsOn }),
  }
}
