/** Requests and answers of `/v1/images`. */
import * as z from 'zod'
import { isImageRef } from '../../core/image-ref.ts'
import { errorAnswer } from './error.ts'
import { imageRef, providerName } from './sandbox.ts'

export const pullImage = z.strictObject({
  image: imageRef,
  provider: providerName.optional(),
})

export const getFeature = z.strictObject({
  feature: z
    .string()
    .min(1)
    .max(1024)
    .refine((text) => /^https?:\/\//.test(text) || isImageRef(text), 'is not the name of a Feature')
    .describe('`REGISTRY/NAMESPACE/ID[:VERSION|@DIGEST]`, or the https address of a tarball.'),
})

const source = z
  .string()
  .min(1)
  .max(128)
  .describe('A sandbox or snapshot by name or id, or a built environment by its digest.')

export const pushImage = z.strictObject({
  source,
  image: imageRef.describe('Where it goes, with a tag.'),
})

export const packedSource = z.strictObject({ source })

export const imageView = z.object({
  ref: z.string().describe('The reference in full.'),
  digest: z.string().describe('What the reference stands for in the registry.'),
  manifestDigest: z.string().describe('The manifest for this platform.'),
  platform: z.string(),
  sizeBytes: z.number().describe('Of all its layers, unpacked. Images may share layers.'),
  layers: z.array(z.string()).describe('sha256 of its layers’ tar files, lowest first.'),
  user: z.string().nullable(),
  workdir: z.string().nullable(),
  variables: z.record(z.string(), z.string()),
  command: z.array(z.string()).describe('The program that it is made for, with arguments.'),
  entrypoint: z.array(z.string()).describe('The first words of `command`, which an image keeps apart.'),
  ports: z.array(z.string()),
  labels: z.record(z.string(), z.string()),
  pulledAt: z.string(),
  usedAt: z.string(),
  usedBy: z.array(z.string()).describe('Sandboxes, snapshots and layers on it.'),
})
export type ImageView = z.infer<typeof imageView>

export const featureView = z.object({
  digest: z.string().describe('Of its manifest, or of the tarball.'),
  metadata: z.string().describe('Its metadata as JSON, as its author wrote it.'),
  archive: z.base64().describe('A tar file of its files.'),
})
export type FeatureView = z.infer<typeof featureView>

/** A line of the answer to a pull or a push. */
export const imageEvent = z.union([
  z.object({ progress: z.string() }),
  z.object({ pulled: imageView }),
  z.object({ feature: featureView }),
  z.object({ pushed: z.object({ image: z.string(), digest: z.string() }) }),
  errorAnswer,
])
export type ImageEventView = z.infer<typeof imageEvent>
