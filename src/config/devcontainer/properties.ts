/** The properties of devcontainer.json, and of the parts that Features and image labels have in common. */
import * as z from 'zod'
import { LONGEST_IMAGE_REF } from '../../core/image-ref.ts'
import { keyedTable } from '../project/values.ts'

const LONGEST_TEXT = 32 * 1024
const MOST_ENTRIES = 256
export const MOST_FEATURES = 100

/** No text of a configuration may hold a NUL: it ends an argument and a variable. */
const text = z
  .string()
  .max(LONGEST_TEXT)
  .refine((value) => !value.includes('\0'), 'has a NUL byte')
const word = text.max(1024).min(1)
const list = <T extends z.ZodType>(of: T): z.ZodArray<T> => z.array(of).max(MOST_ENTRIES)
const mapOf = <T extends z.ZodType>(of: T): z.ZodRecord<z.ZodString, T> =>
  keyedTable(z.string().min(1).max(1024), of, MOST_ENTRIES)

const VARIABLE = /^[^=\0]{1,512}$/
const variables = <T extends z.ZodType>(of: T): z.ZodRecord<z.ZodString, T> =>
  keyedTable(z.string().regex(VARIABLE, 'is not a valid variable name'), of, MOST_ENTRIES)

/** The stages inside the container, in the order in which they run. */
export const CONTAINER_STAGES = [
  'onCreateCommand',
  'updateContentCommand',
  'postCreateCommand',
  'postStartCommand',
  'postAttachCommand',
] as const
export type ContainerStage = (typeof CONTAINER_STAGES)[number]
export const LIFECYCLE_STAGES = ['initializeCommand', ...CONTAINER_STAGES] as const
export type LifecycleStage = (typeof LIFECYCLE_STAGES)[number]

const execution = list(text).min(1)
/** A string is for a shell, an array is run as it is, and the entries of an object run at the same time. */
const lifecycleValue = z.union([text, execution, mapOf(z.union([text, execution]))])
export type LifecycleValue = z.infer<typeof lifecycleValue>

export const USER_ENV_PROBES = ['none', 'interactiveShell', 'loginShell', 'loginInteractiveShell'] as const
export type UserEnvProbe = (typeof USER_ENV_PROBES)[number]

export const MOUNT_KINDS = ['bind', 'volume', 'tmpfs'] as const
const mountObject = z.strictObject({
  type: z.enum(MOUNT_KINDS),
  source: text.optional(),
  target: word,
  external: z.boolean().optional(),
})
const mountValue = z.union([word, mountObject])
export type MountValue = z.infer<typeof mountValue>

const PORT = 'must be a port from 0 to 65535, or "host:port"'
const HOST_PORT = /^[^\s:/]+:[0-9]{1,5}$/
const forwardedPort = z.union([
  z.int({ error: PORT }).min(0, PORT).max(65_535, PORT),
  z.string().max(300).regex(HOST_PORT, PORT),
])

const portAttributes = z.strictObject({
  label: text.optional(),
  protocol: z.enum(['http', 'https']).optional(),
  onAutoForward: z
    .enum(['notify', 'openBrowser', 'openBrowserOnce', 'openPreview', 'silent', 'ignore'])
    .optional(),
  requireLocalPort: z.boolean().optional(),
  elevateIfNeeded: z.boolean().optional(),
})
export type PortAttributes = z.infer<typeof portAttributes>

const SIZE = 'must be digits with tb, gb, mb or kb, like "8gb"'
const sizeText = z.string({ error: SIZE }).regex(/^[0-9]{1,15}(?:[tgmk]b)?$/, SIZE)
const hostRequirements = z.strictObject({
  cpus: z.int().min(1).optional(),
  memory: sizeText.optional(),
  storage: sizeText.optional(),
  gpu: z
    .union([
      z.boolean(),
      z.literal('optional'),
      z.strictObject({ cores: z.int().min(1).optional(), memory: sizeText.optional() }),
    ])
    .optional(),
})
export type HostRequirements = z.infer<typeof hostRequirements>

const featureOptions = z.union([text, z.boolean(), mapOf(z.union([text, z.boolean()]))])
export type FeatureOptionsValue = z.infer<typeof featureOptions>
export const featuresTable = keyedTable(z.string().min(1).max(512), featureOptions, MOST_FEATURES)

/** What an image's label, a Feature and devcontainer.json itself can all say. */
export const snippetShape = {
  onCreateCommand: lifecycleValue.optional(),
  updateContentCommand: lifecycleValue.optional(),
  postCreateCommand: lifecycleValue.optional(),
  postStartCommand: lifecycleValue.optional(),
  postAttachCommand: lifecycleValue.optional(),
  waitFor: z.enum(LIFECYCLE_STAGES).optional(),
  customizations: mapOf(z.unknown()).optional(),
  mounts: list(mountValue).optional(),
  containerEnv: variables(text).optional(),
  containerUser: word.optional(),
  init: z.boolean().optional(),
  privileged: z.boolean().optional(),
  capAdd: list(word).optional(),
  securityOpt: list(word).optional(),
  remoteUser: word.optional(),
  userEnvProbe: z.enum(USER_ENV_PROBES).optional(),
  remoteEnv: variables(z.union([text, z.null()])).optional(),
  overrideCommand: z.boolean().optional(),
  portsAttributes: mapOf(portAttributes).optional(),
  otherPortsAttributes: portAttributes.optional(),
  forwardPorts: list(forwardedPort).optional(),
  shutdownAction: z.enum(['none', 'stopContainer', 'stopCompose']).optional(),
  updateRemoteUserUID: z.boolean().optional(),
  hostRequirements: hostRequirements.optional(),
}

const buildTable = z.strictObject({
  dockerfile: word.optional(),
  context: word.optional(),
  args: mapOf(text).optional(),
  target: word.optional(),
  cacheFrom: z.union([word, list(word)]).optional(),
  options: list(text).optional(),
})

const secretsSchema = keyedTable(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'is not a valid name for a secret'),
  z.strictObject({ description: text.optional(), documentationUrl: text.optional() }),
  MOST_ENTRIES,
)

export const devcontainerSchema = z.strictObject({
  $schema: text.optional(),
  name: text.optional(),
  image: z.string().min(1).max(LONGEST_IMAGE_REF).optional(),
  build: buildTable.optional(),
  dockerFile: word.optional(),
  context: word.optional(),
  dockerComposeFile: z.union([word, list(word)]).optional(),
  service: word.optional(),
  runServices: list(word).optional(),
  workspaceFolder: word.optional(),
  workspaceMount: text.optional(),
  features: featuresTable.optional(),
  overrideFeatureInstallOrder: list(word).optional(),
  initializeCommand: lifecycleValue.optional(),
  ...snippetShape,
  runArgs: list(text).optional(),
  appPort: z
    .union([z.int().min(0).max(65_535), word, list(z.union([z.int().min(0).max(65_535), word]))])
    .optional(),
  secrets: secretsSchema.optional(),
  /** Old places of what is now `customizations.vscode`. */
  extensions: list(text).optional(),
  settings: z.record(z.string(), z.unknown()).optional(),
  devPort: z.int().optional(),
})
export type DevcontainerProperties = z.infer<typeof devcontainerSchema>
