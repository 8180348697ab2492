/** `devcontainer-feature.json`, from a folder, a tarball, or the annotation of an artifact's manifest. */
import * as z from 'zod'
import type { JsonObject } from '../../../util/untrusted-json.ts'
import { isObject } from '../../../util/untrusted-json.ts'
import { type JsoncSource, parseJsonc } from '../../jsonc/jsonc-file.ts'
import { featuresTable, snippetShape } from '../properties.ts'

const text = z.string().max(32 * 1024)
const ID = 'must be letters, digits, dashes and underscores'
const id = z
  .string()
  .max(256)
  .regex(/^[A-Za-z0-9_-]+$/, ID)

const option = z.looseObject({
  type: z.enum(['boolean', 'string']),
  default: z.union([z.boolean(), text]).optional(),
  enum: z.array(text).max(1000).optional(),
  proposals: z.array(text).max(1000).optional(),
  description: text.optional(),
})
export type FeatureOption = z.infer<typeof option>

const {
  onCreateCommand,
  updateContentCommand,
  postCreateCommand,
  postStartCommand,
  postAttachCommand,
  init,
  privileged,
  capAdd,
  securityOpt,
  mounts,
  customizations,
  containerEnv,
} = snippetShape

/** Others wrote it, so unknown keys are kept and not errors. */
const featureSchema = z.looseObject({
  id,
  version: text.optional(),
  name: text.optional(),
  description: text.optional(),
  documentationURL: text.optional(),
  deprecated: z.boolean().optional(),
  options: z
    .record(z.string().max(256), option)
    .refine((map) => Object.keys(map).length <= 256, 'has more than 256 entries')
    .optional(),
  dependsOn: featuresTable.optional(),
  installsAfter: z.array(text.max(512)).max(256).optional(),
  legacyIds: z.array(text.max(512)).max(256).optional(),
  currentId: text.max(256).optional(),
  entrypoint: text.optional(),
  containerEnv,
  init,
  privileged,
  capAdd,
  securityOpt,
  mounts,
  customizations,
  onCreateCommand,
  updateContentCommand,
  postCreateCommand,
  postStartCommand,
  postAttachCommand,
})
export type FeatureProperties = z.infer<typeof featureSchema>

export interface FeatureMetadata {
  readonly properties: FeatureProperties
  /** As it is written. */
  readonly raw: JsonObject
}

/** `file` names it in messages: a path, or the reference of the Feature. */
export function parseFeatureMetadata(source: JsoncSource): FeatureMetadata {
  const { data, value } = parseJsonc(source, featureSchema)
  return { properties: data, raw: isObject(value) ? value : {} }
}
