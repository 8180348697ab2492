/** Requests and answers of `/v1/builds`. */
import * as z from 'zod'
import { PACKAGE_PRESETS } from '../../core/build/package-preset.ts'
import { BASES } from '../../core/environment.ts'
import { DEFAULT_STEP_MS, KITS, LONGEST_STEP_MS, MOST_STEPS } from '../../core/recipe.ts'
import { errorAnswer } from './error.ts'
import { ruleObject } from './network.ts'
import { imageRef, pathList, providerName, userName, variablesBody } from './sandbox.ts'
import { absolutePath, textLine, withoutNul } from './text.ts'

const name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._/-]{0,99}$/, 'may contain lower-case letters, digits and . _ / -')
/** SECURITY: CP-16. Bounded, because it is stored as long as the layer. */
const few = <T extends z.ZodRecord>(record: T, most: number): T =>
  record.refine((map) => Object.keys(map).length <= most, `has more than ${most} entries`)
const digest = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')

const step = z.strictObject({
  name: name.describe('Unique in the recipe.'),
  title: textLine(200).describe('Shown to the user.'),
  run: withoutNul(64 * 1024).describe('A command for /bin/sh; empty if the step only adds files.'),
  user: userName.default('root'),
  workdir: absolutePath.default('/'),
  path: pathList.default([]),
  variables: variablesBody.default({}),
  files: z
    .strictObject({
      digest: digest.describe(
        'sha256 of a tar archive that was uploaded by `POST /v1/builds/files/{digest}`.',
      ),
      to: absolutePath,
      entries: few(z.record(z.string().max(4096), z.string().max(64)), 10_000).default({}),
    })
    .optional(),
  network: z.array(ruleObject).max(256).default([]).describe('The only hosts that the command may reach.'),
  presets: z
    .array(z.enum(PACKAGE_PRESETS))
    .max(PACKAGE_PRESETS.length)
    .default([])
    .describe(
      'Package managers whose registries, as the server’s machine knows them, the command may reach as well.',
    ),
  timeoutMs: z.number().int().min(1000).max(LONGEST_STEP_MS).default(DEFAULT_STEP_MS),
})

const imageDigest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256: and 64 hexadecimal digits')

export const buildRequest = z.strictObject({
  provider: providerName.optional().describe('The provider that builds it and whose sandboxes can use it.'),
  project: textLine(200).default('').describe('Builds of one project are compared to report what changed.'),
  recipe: z.strictObject({
    base: z.strictObject({
      name: z.enum(BASES),
      suite: z
        .string()
        .regex(/^[a-z]{1,32}$/)
        .optional()
        .describe('Debian’s release; by default the one of the machine.'),
      kit: z.enum(KITS).optional().describe('For the base `debian`: what it has besides the system.'),
      image: imageRef.optional().describe('For the base `image`: its reference.'),
      digest: imageDigest
        .optional()
        .describe('For the base `image`: the digest that the reference must have.'),
      tools: few(z.record(z.string().max(64), z.string().max(512)), 200).optional(),
    }),
    steps: z.array(step).max(MOST_STEPS),
  }),
  keepFailed: z.boolean().default(false).describe('Keep the sandbox of a failed step for an hour.'),
  again: name.optional().describe('Build this step and the steps after it again.'),
})
export type BuildRequestBody = z.input<typeof buildRequest>

const dockerfileVariables = few(z.record(z.string().min(1).max(200), withoutNul(16 * 1024)), 200)
const secretId = z.string().regex(/^[\w.\-/]{1,200}$/, 'may contain letters, digits and . _ - /')

export const dockerfileBuildRequest = z.strictObject({
  provider: providerName.optional(),
  project: textLine(200).default('').describe('Builds of one project are compared to report what changed.'),
  dockerfile: z.strictObject({
    name: textLine(200).default('Dockerfile').describe('How errors name the file.'),
    content: withoutNul(512 * 1024).describe('The Dockerfile.'),
    target: textLine(200).optional().describe('The stage to build; the last one by default.'),
    args: dockerfileVariables.default({}).describe('Values of ARG instructions.'),
    context: digest
      .optional()
      .describe(
        'sha256 of the build context, a tar archive that was uploaded by `POST /v1/builds/files/{digest}`.',
      ),
    secrets: few(z.record(secretId, z.string().max(64 * 1024)), 50)
      .default({})
      .describe('For `RUN --mount=type=secret`, by id. Not stored.'),
    images: z
      .array(imageRef)
      .max(256)
      .optional()
      .describe('The only images that it may use; any by default.'),
    network: z.array(ruleObject).max(256).default([]).describe('The only hosts that the build may reach.'),
    presets: z
      .array(z.enum(PACKAGE_PRESETS))
      .max(PACKAGE_PRESETS.length)
      .default([])
      .describe(
        'Package managers whose registries, as the server’s machine knows them, it may reach as well.',
      ),
    deny: z.array(ruleObject).max(256).default([]).describe('Hosts that it may not reach.'),
    tag: imageRef.optional().describe('Store the result as an image of this name; for admins.'),
    useCache: z.boolean().default(true),
    timeoutMs: z.number().int().min(1000).max(LONGEST_STEP_MS).default(DEFAULT_STEP_MS),
  }),
  keepFailed: z.boolean().default(false).describe('Keep the sandbox of a failed step for an hour.'),
})
export type DockerfileBuildBody = z.input<typeof dockerfileBuildRequest>

/** One line each, until `built`, `needs` or an error. */
export const buildEvent = z.union([
  z.object({ progress: z.string() }),
  z.object({
    step: z.object({
      name: z.string(),
      title: z.string(),
      number: z.number(),
      of: z.number(),
      state: z.enum(['cached', 'started', 'done']),
      why: z.string().optional().describe('Why the step is built.'),
      ms: z.number().optional(),
      sizeBytes: z.number().optional(),
    }),
  }),
  z.object({ output: z.object({ name: z.string(), data: z.string().describe('base64') }) }),
  z.object({ needs: z.array(z.string()).describe('Digests of archives that must be uploaded first.') }),
  z.object({
    built: z.object({
      digest: z.string().optional(),
      base: z.string().optional().describe('The digest of the base’s layer, if it has one.'),
      sizeBytes: z.number(),
      steps: z.number().optional().describe('For a Dockerfile: its instructions that make layers.'),
      image: z
        .object({ ref: z.string(), digest: z.string() })
        .optional()
        .describe('For a Dockerfile with a tag: the stored image.'),
      config: z.string().optional().describe('For a Dockerfile: the configuration of the image, as JSON.'),
    }),
  }),
  z.object({
    warnings: z
      .array(z.object({ rule: z.string(), text: z.string(), url: z.string().optional(), line: z.number() }))
      .describe('What the linter says about a Dockerfile.'),
  }),
  errorAnswer,
])
export type BuildEventView = z.infer<typeof buildEvent>

export const layer = z.object({
  key: z.string(),
  parent: z.string().optional(),
  step: z.string(),
  title: z.string(),
  project: z.string(),
  base: z.string(),
  sizeBytes: z.number(),
  createdAt: z.string(),
  usedAt: z.string(),
  inUse: z.boolean(),
})
export type LayerView = z.infer<typeof layer>

export const pruneRequest = z.strictObject({
  keepBytes: z.number().int().min(0),
  dryRun: z.boolean().default(false),
})

export const pruned = z.object({
  removed: z.array(z.object({ key: z.string(), title: z.string(), sizeBytes: z.number() })),
  keptBytes: z.number(),
})
export type PrunedView = z.infer<typeof pruned>

export const toolchains = z.object({
  arch: z.string(),
  suite: z.string().describe('The default Debian release of a base.'),
  hasHost: z.boolean().describe('Whether the tools of this machine can be the base.'),
  host: z.array(z.object({ name: z.string(), version: z.string(), directory: z.string() })),
})
export type ToolchainsView = z.infer<typeof toolchains>

/** A stored archive. */
export const uploaded = z.object({ digest: z.string() })
