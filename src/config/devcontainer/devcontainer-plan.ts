/** A devcontainer as typed data, from everything that was read: what the execution acts on. */
import type { JsonObject } from '../../util/untrusted-json.ts'
import { type AgentpodTables, mergeAgentpodTables } from './agentpod-tables.ts'
import { type DevcontainerFile, type DevcontainerSource, devcontainerSource } from './devcontainer-file.ts'
import { type EntrypointPlan, entrypointPlans } from './entrypoints.ts'
import type { ResolvedFeature } from './features/feature-resolver.ts'
import { requirementBytes } from './host-requirements.ts'
import {
  DEFAULT_WAIT_FOR,
  type LifecyclePlan,
  type LifecycleStep,
  lifecyclePlan,
  lifecycleStep,
  OWN_ORIGIN,
} from './lifecycle.ts'
import { mergeMetadata } from './merge.ts'
import { type DevcontainerMount, isTemporaryTarget, parseMount } from './mounts.ts'
import type {
  DevcontainerProperties,
  HostRequirements,
  LifecycleStage,
  LifecycleValue,
  PortAttributes,
  UserEnvProbe,
} from './properties.ts'
import { type MergeInput, metadataEntries, type ReadConfiguration } from './read-configuration.ts'
import { runWishes } from './run-arguments.ts'
import { localVariableNames, type SafetyItem, safetyItems } from './safety.ts'

/** The id and variables of the container are still as they are written: see `variables.ts`. */
export interface DevcontainerPlan {
  readonly name?: string | undefined
  readonly source: DevcontainerSource
  readonly workspaceFolder: string
  /** In the order of installation. */
  readonly features: readonly ResolvedFeature[]
  /** Undefined: the user of the image. */
  readonly containerUser?: string | undefined
  /** Undefined: the container user. */
  readonly remoteUser?: string | undefined
  readonly userEnvProbe: UserEnvProbe
  readonly containerEnv: Readonly<Record<string, string>>
  /** Null removes a variable. */
  readonly remoteEnv: Readonly<Record<string, string | null>>
  /** `initializeCommand`: it needs approval, and never runs on the host. */
  readonly initialize?: LifecycleStep | undefined
  readonly lifecycle: LifecyclePlan
  readonly waitFor: LifecycleStage
  /** Whether the command of the service or image runs: only with compose files, unless `overrideCommand`. */
  readonly isCommandStarted: boolean
  /** Programs of Features that start before anything else, each of which starts its arguments. */
  readonly entrypoints: readonly EntrypointPlan[]
  /** Those that are honoured. */
  readonly mounts: readonly DevcontainerMount[]
  readonly ports: readonly DevcontainerPort[]
  readonly portsAttributes: Readonly<Record<string, PortAttributes>>
  readonly otherPortsAttributes?: PortAttributes | undefined
  readonly hostRequirements: {
    readonly cpus: number
    readonly memoryMib: number
    readonly storageMib: number
  }
  readonly secrets: NonNullable<DevcontainerProperties['secrets']>
  readonly agentpod: AgentpodTables
  /** Names of this machine's variables that the file reads. They need approval. */
  readonly localVariables: readonly string[]
  readonly safety: readonly SafetyItem[]
  readonly notes: readonly string[]
}

export interface DevcontainerPort {
  /** Another service of a compose file; the container itself without one. */
  readonly host?: string | undefined
  readonly port: number
  readonly attributes: PortAttributes
}

export function devcontainerPlan(
  file: DevcontainerFile,
  read: ReadConfiguration,
  input: MergeInput,
): DevcontainerPlan {
  const configuration = read.configuration as DevcontainerProperties & JsonObject
  const entries = metadataEntries(read, input)
  const merged = mergeMetadata(entries)
  const others = metadataEntries({ ...read, configuration: {} }, input)
  const safety = safetyItems(file, configuration, others)
  const run = runWishes(configuration.runArgs ?? [])
  const { tables, remarks } = mergeAgentpodTables(merged.customizations?.['agentpod'] ?? [])
  const mounts = [...(merged.mounts ?? []), ...run.mounts].map(parseMount)
  const { memory, storage, cpus } = (merged.hostRequirements ?? {}) as HostRequirements
  return {
    name: configuration.name,
    source: devcontainerSource(configuration),
    workspaceFolder: read.workspace.workspaceFolder,
    features: input.features,
    containerUser: merged.containerUser ?? run.user,
    remoteUser: merged.remoteUser,
    userEnvProbe: merged.userEnvProbe ?? 'loginInteractiveShell',
    containerEnv: { ...run.variables, ...merged.containerEnv },
    remoteEnv: merged.remoteEnv,
    initialize: lifecycleStep(OWN_ORIGIN, configuration.initializeCommand as LifecycleValue | undefined),
    lifecycle: lifecyclePlan(entries),
    waitFor: merged.waitFor ?? DEFAULT_WAIT_FOR,
    isCommandStarted: configuration.dockerComposeFile !== undefined && merged.overrideCommand !== true,
    entrypoints: entrypointPlans(entries, safety),
    mounts: mounts.filter(
      ({ kind, target }) =>
        (kind === 'volume' && target.startsWith('/') && target !== '/') ||
        (kind === 'tmpfs' && isTemporaryTarget(target)),
    ),
    ports: portsOf(
      [...(merged.forwardPorts ?? []), ...appPorts(configuration.appPort)],
      merged.portsAttributes,
    ),
    portsAttributes: merged.portsAttributes,
    otherPortsAttributes: merged.otherPortsAttributes,
    hostRequirements: {
      cpus: Math.max(cpus ?? 0, run.cpus ?? 0),
      memoryMib: Math.max(mib(memory), run.memoryMib ?? 0),
      storageMib: mib(storage),
    },
    secrets: configuration.secrets ?? {},
    agentpod: tables,
    localVariables: localVariableNames(file.raw),
    safety,
    notes: [
      ...file.notes.map(({ line, said }) => `${file.file}:${line}: ${said}`),
      ...remarks.map(({ path, message }) => `${path.join('.')}: ${message}`),
    ],
  }
}

function mib(size: string | undefined): number {
  return Math.ceil(requirementBytes(size) / 2 ** 20)
}

function portsOf(
  said: readonly (number | string)[],
  attributes: Readonly<Record<string, PortAttributes>>,
): DevcontainerPort[] {
  const ports = said.map((one) => {
    const [host, number] = typeof one === 'number' ? [undefined, one] : splitPort(one)
    return { ...(host !== undefined && { host }), port: number, attributes: attributesOf(one, attributes) }
  })
  const seen = new Set<string>()
  return ports.filter(({ host = '', port }) => {
    const key = `${host}:${port}`
    return seen.has(key) ? false : seen.add(key)
  })
}

function splitPort(text: string): [string | undefined, number] {
  const at = text.lastIndexOf(':')
  const host = text.slice(0, at)
  return [['localhost', '127.0.0.1'].includes(host) ? undefined : host, Number(text.slice(at + 1))]
}

/** A key is a port, `host:port`, or a range like `3000-3010`. Patterns of command lines match none here. */
function attributesOf(
  port: number | string,
  attributes: Readonly<Record<string, PortAttributes>>,
): PortAttributes {
  const key = String(port)
  if (Object.hasOwn(attributes, key)) return attributes[key] ?? {}
  for (const [range, value] of Object.entries(attributes)) {
    const [, from, to] = /^([0-9]{1,5})-([0-9]{1,5})$/.exec(range) ?? []
    if (typeof port === 'number' && port >= Number(from) && port <= Number(to)) return value
  }
  return {}
}

/** `appPort` may be a number, `8080:80` or an address: the last number is the port inside. */
function appPorts(said: DevcontainerProperties['appPort']): number[] {
  return [said ?? []].flat().flatMap((one) => {
    const port = typeof one === 'number' ? one : Number(/([0-9]{1,5})(?:\/tcp)?$/.exec(one)?.[1])
    return Number.isInteger(port) && port > 0 && port < 65_536 ? [port] : []
  })
}
