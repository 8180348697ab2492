/**
 * What an image's label, Features and devcontainer.json say in common, in the order of merging: the label
 * first, then Features in the order of installation, then devcontainer.json.
 */
import * as z from 'zod'
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'
import { readJsonc } from '../jsonc/jsonc-file.ts'
import { printable, quoted } from '../toml/problem.ts'
import type { ResolvedFeature } from './features/feature-resolver.ts'
import { withoutOldProperties } from './old-properties.ts'
import { CONTAINER_STAGES, snippetShape } from './properties.ts'

export const METADATA_LABEL = 'devcontainer.metadata'

const entryShape = {
  ...snippetShape,
  id: z.string().max(512).optional(),
  entrypoint: z.string().max(4096).optional(),
}
const metadataEntry = z.object(entryShape)
export type MetadataEntry = z.infer<typeof metadataEntry>

type Key = keyof typeof entryShape

const OF_FEATURES: readonly Key[] = [
  ...CONTAINER_STAGES,
  'init',
  'privileged',
  'capAdd',
  'securityOpt',
  'entrypoint',
  'mounts',
  'customizations',
]
const OF_FILES = Object.keys(snippetShape) as readonly Key[]

const MOST_ENTRIES = 1000
const MOST_NOTES = 20

export interface LabelMetadata {
  readonly entries: readonly MetadataEntry[]
  /** What was not used, and why. */
  readonly notes: readonly string[]
}

/**
 * SECURITY: CF-02. Anyone can write a label. A malformed one is ignored as a whole, as the official command
 * does, and a wrong value is ignored alone; both are named.
 */
export function parseMetadataLabel(label: string, image: string): LabelMetadata {
  const named = `the label ${METADATA_LABEL} of ${printable(image, 200)}`
  let value: unknown
  try {
    value = readJsonc({ file: named, text: label }).value
    // A label has no comments.
    JSON.parse(label)
  } catch (error) {
    return { entries: [], notes: [`${named} was ignored: ${(error as Error).message}`] }
  }
  const list = Array.isArray(value) ? value : [value]
  const notes: string[] = []
  if (list.length > MOST_ENTRIES)
    return { entries: [], notes: [`${named} was ignored: it has more than ${MOST_ENTRIES} entries`] }
  const entries = list.flatMap((one, index) => {
    if (isObject(one)) return [checkedEntry(one, (text) => notes.push(`${named}, entry ${index}: ${text}`))]
    notes.push(`${named}, entry ${index}: it is not an object and was ignored`)
    return []
  })
  const more = notes.length - MOST_NOTES
  return {
    entries,
    notes: more > 0 ? [...notes.slice(0, MOST_NOTES), `${named}: ${more} more values were ignored`] : notes,
  }
}

function checkedEntry(raw: JsonObject, note: (text: string) => void): MetadataEntry {
  const made: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(raw)) {
    if (!Object.hasOwn(entryShape, key)) {
      note(`${quoted(key)} is not known and was ignored`)
      continue
    }
    if (entryShape[key as Key].safeParse(value).success) made[key] = value
    else note(`${quoted(key)} has a value of a wrong kind and was ignored`)
  }
  return made as MetadataEntry
}

/** `replace` is the first pass of variables, which applies to Features too. */
export function featureEntries(
  features: readonly ResolvedFeature[],
  replace: <T>(value: T) => T,
): readonly MetadataEntry[] {
  return features.map(({ reference, metadata }) =>
    replace({
      id: reference.written,
      ...picked(withoutOldProperties(metadata.raw), OF_FEATURES),
    } as MetadataEntry),
  )
}

/** The part of a devcontainer.json, with replaced variables, that takes part in merging. */
export function fileEntry(configuration: JsonObject): MetadataEntry {
  return picked(configuration, OF_FILES) as MetadataEntry
}

function picked(raw: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(keys.filter((key) => Object.hasOwn(raw, key)).map((key) => [key, raw[key]]))
}
