/** Merges metadata into one configuration, in the shape that the official command prints. */
import type { JsonObject } from '../../util/untrusted-json.ts'
import { hostRequirementsOf } from './host-requirements.ts'
import type { MetadataEntry } from './image-metadata.ts'
import { comparedTarget } from './mounts.ts'
import { CONTAINER_STAGES, type LifecycleValue, type MountValue } from './properties.ts'

export interface MergedMetadata {
  readonly init: boolean
  readonly privileged: boolean
  readonly capAdd?: readonly string[] | undefined
  readonly securityOpt?: readonly string[] | undefined
  readonly entrypoints?: readonly string[] | undefined
  readonly mounts?: readonly MountValue[] | undefined
  /** By tool, one value for each entry that has it. */
  readonly customizations?: Readonly<Record<string, readonly unknown[]>> | undefined
  readonly onCreateCommands: readonly LifecycleValue[]
  readonly updateContentCommands: readonly LifecycleValue[]
  readonly postCreateCommands: readonly LifecycleValue[]
  readonly postStartCommands: readonly LifecycleValue[]
  readonly postAttachCommands: readonly LifecycleValue[]
  readonly waitFor: MetadataEntry['waitFor']
  readonly remoteUser: string | undefined
  readonly containerUser: string | undefined
  readonly userEnvProbe: MetadataEntry['userEnvProbe']
  readonly remoteEnv: Readonly<Record<string, string | null>>
  readonly containerEnv: Readonly<Record<string, string>>
  readonly overrideCommand: boolean | undefined
  readonly portsAttributes: NonNullable<MetadataEntry['portsAttributes']>
  readonly otherPortsAttributes: MetadataEntry['otherPortsAttributes']
  readonly forwardPorts?: readonly (number | string)[] | undefined
  readonly shutdownAction: MetadataEntry['shutdownAction']
  readonly updateRemoteUserUID: boolean | undefined
  readonly hostRequirements?: JsonObject | undefined
}

export function mergeMetadata(entries: readonly MetadataEntry[]): MergedMetadata {
  const last = <K extends keyof MetadataEntry>(key: K): MetadataEntry[K] | undefined =>
    entries.findLast((entry) => entry[key])?.[key]
  const lastSaid = (key: 'overrideCommand' | 'updateRemoteUserUID'): boolean | undefined =>
    entries.findLast((entry) => typeof entry[key] === 'boolean')?.[key]
  const hooks = (key: (typeof CONTAINER_STAGES)[number]): LifecycleValue[] =>
    entries.flatMap((entry) => {
      const value = entry[key]
      return value === undefined || value === '' ? [] : [value]
    })
  return {
    init: entries.some((entry) => entry.init),
    privileged: entries.some((entry) => entry.privileged),
    capAdd: unionOf(entries.map((entry) => entry.capAdd)),
    securityOpt: unionOf(entries.map((entry) => entry.securityOpt)),
    entrypoints: filled(entries.flatMap(({ entrypoint }) => (entrypoint ? [entrypoint] : []))),
    mounts: mergedMounts(entries),
    customizations: mergedCustomizations(entries),
    onCreateCommands: hooks('onCreateCommand'),
    updateContentCommands: hooks('updateContentCommand'),
    postCreateCommands: hooks('postCreateCommand'),
    postStartCommands: hooks('postStartCommand'),
    postAttachCommands: hooks('postAttachCommand'),
    waitFor: last('waitFor'),
    remoteUser: last('remoteUser'),
    containerUser: last('containerUser'),
    userEnvProbe: last('userEnvProbe'),
    remoteEnv: Object.assign({}, ...entries.map((entry) => entry.remoteEnv)),
    containerEnv: Object.assign({}, ...entries.map((entry) => entry.containerEnv)),
    overrideCommand: lastSaid('overrideCommand'),
    portsAttributes: Object.assign({}, ...entries.map((entry) => entry.portsAttributes)),
    otherPortsAttributes: last('otherPortsAttributes'),
    forwardPorts: mergedPorts(entries),
    shutdownAction: last('shutdownAction'),
    updateRemoteUserUID: lastSaid('updateRemoteUserUID'),
    hostRequirements: hostRequirementsOf(entries.map((entry) => entry.hostRequirements)),
  }
}

/** What the lists of the merged form replace. */
const REPLACED: readonly string[] = ['customizations', 'entrypoint', ...CONTAINER_STAGES, 'shutdownAction']

/** The merged configuration: what is not merged comes from devcontainer.json. */
export function mergedConfiguration(
  configuration: JsonObject,
  entries: readonly MetadataEntry[],
): JsonObject {
  const kept = Object.entries(configuration).filter(([key]) => !REPLACED.includes(key))
  return { ...Object.fromEntries(kept), ...mergeMetadata(entries) }
}

function filled<T>(values: readonly T[]): readonly T[] | undefined {
  return values.length === 0 ? undefined : values
}

function unionOf(lists: readonly (readonly string[] | undefined)[]): readonly string[] | undefined {
  return filled([...new Set(lists.flatMap((one) => one ?? []))])
}

/** Of two mounts with one target the later one counts, in its own place. */
function mergedMounts(entries: readonly MetadataEntry[]): readonly MountValue[] | undefined {
  const all = entries.flatMap((entry) => entry.mounts ?? [])
  const targets = all.map(comparedTarget)
  return filled(all.filter((_, index) => targets.lastIndexOf(targets[index]) === index))
}

function mergedCustomizations(
  entries: readonly MetadataEntry[],
): Readonly<Record<string, readonly unknown[]>> | undefined {
  const byTool = new Map<string, unknown[]>()
  for (const { customizations = {} } of entries)
    for (const [tool, value] of Object.entries(customizations)) {
      const known = byTool.get(tool)
      if (known) known.push(value)
      else byTool.set(tool, [value])
    }
  return byTool.size === 0 ? undefined : Object.fromEntries(byTool)
}

/** A number, and `localhost` with that number, are the same port. */
function mergedPorts(entries: readonly MetadataEntry[]): readonly (number | string)[] | undefined {
  const said = entries.flatMap((entry) => entry.forwardPorts ?? [])
  const texts = new Set(said.map((port) => (typeof port === 'number' ? `localhost:${port}` : port)))
  return filled(
    [...texts].map((port) => {
      const [, number] = /^localhost:([0-9]+)$/.exec(port) ?? []
      return number === undefined ? port : Number(number)
    }),
  )
}
