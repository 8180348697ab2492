/**
 * The content of `agentpod.toml` in normal form: sizes and times as numbers, commands as lists, tables in
 * file order.
 */
import type { Isolation } from '../../core/capability.ts'
import type { Readiness, StopSignal } from '../../core/environment.ts'
import { readByteSize, readMib, readMs } from '../../util/quantity.ts'
import type { Verb } from '../detect/finding.ts'
import {
  allowedKinds,
  type PermissionsWish,
  permissionsWish,
  withoutUngranted,
} from '../grants/permissions.ts'
import {
  hasDockerfile,
  hasImage,
  hasNoPrivileges,
  NO_PRIVILEGES,
  type Privileges,
} from '../grants/privileges.ts'
import { type NetworkWish, wishOf } from '../network/network-table.ts'
import { ADDON_NAMES, ADDON_PORTS, type AddonName, type AddonsTable } from './addons-table.ts'
import { type DockerfileWish, dockerfileWish } from './dockerfile-table.ts'
import type { PackageManager, ProjectBase, ProjectLanguage } from './environment-table.ts'
import type { ProfileTable, ProjectTables } from './schema.ts'
import { isServiceName, type ServiceName } from './services-table.ts'
import type { VolumesTable } from './volumes-table.ts'

export interface ProjectData {
  /** The least that its sandboxes may have. */
  readonly isolation?: Isolation | undefined
  readonly docker?: boolean | undefined
  readonly environment: EnvironmentWish
  /** In the order of the file. */
  readonly services: readonly ServiceWish[]
  readonly addons: readonly AddonWish[]
  readonly ports: readonly PortWish[]
  /** `false`: none, even if one is detected. */
  readonly lifecycle: Readonly<Partial<Record<Verb, CommandWish | false>>>
  readonly resources: ResourcesWish
  readonly volumes: readonly VolumeWish[]
  readonly ephemeral: readonly EphemeralWish[]
  /** With the secrets. */
  readonly network: NetworkWish
  readonly agents: AgentsWish
  readonly profiles: ReadonlyMap<string, ProfileTable>
}

export interface AgentsWish {
  readonly default?: string | undefined
  readonly model?: string | undefined
  readonly timeMs?: number | undefined
  readonly maxCostUsd?: number | undefined
  /** A template. */
  readonly branch?: string | undefined
  readonly permissions: PermissionsWish
}

export interface EnvironmentWish {
  readonly name?: string | undefined
  readonly base?: ProjectBase | undefined
  readonly suite?: string | undefined
  readonly image?: string | undefined
  readonly dockerfile?: DockerfileWish | undefined
  readonly user?: string | undefined
  readonly sudo?: boolean | undefined
  /** `false`: none, even if it is detected. */
  readonly languages: Readonly<Partial<Record<ProjectLanguage, string | false>>>
  readonly packages: Readonly<Record<PackageManager, readonly string[]>>
  readonly variables: Readonly<Record<string, string>>
}

export type ServiceWish =
  | { readonly kind: 'none'; readonly name: string }
  | {
      readonly kind: 'known'
      readonly name: ServiceName
      readonly version?: string | undefined
      readonly port?: number | undefined
    }
  | {
      readonly kind: 'command'
      readonly name: string
      readonly run: string
      readonly ready?: Readiness | undefined
      /** Below the project; empty for the project itself. */
      readonly workdir: string
      readonly variables: Readonly<Record<string, string>>
      readonly stopSignal: StopSignal
    }

export interface AddonWish {
  readonly name: AddonName
  readonly port: number
}

export interface PortWish {
  readonly port: number
  readonly label?: string | undefined
  readonly isPublic: boolean
}

export interface CommandWish {
  /** For /bin/sh, in this order, until one fails. */
  readonly commands: readonly string[]
  /** Files of the project that the commands read; undefined if the file does not list them. */
  readonly inputs?: readonly string[] | undefined
}

export interface ResourcesWish {
  readonly cpus?: number | undefined
  readonly memoryMib?: number | undefined
  readonly diskMib?: number | undefined
  readonly pids?: number | undefined
  readonly bandwidthBytes?: number | undefined
  readonly timeoutMs?: number | undefined
  readonly idleMs?: number | undefined
  readonly stepMs?: number | undefined
}

export interface VolumeWish {
  readonly name: string
  /** Absolute, or below the home directory of the user inside: `~/...`. */
  readonly path: string
  readonly isReadOnly: boolean
  readonly sizeMib?: number | undefined
}

export interface EphemeralWish {
  /** Below the project, absolute, or below the home directory of the user inside: `~/...`. */
  readonly path: string
  readonly sizeMib?: number | undefined
}

const READY_MS = 30_000

export function projectData(tables: ProjectTables): ProjectData {
  const {
    languages = {},
    packages = {},
    variables = {},
    dockerfile,
    ...environment
  } = tables.environment ?? {}
  const { apt = [], npm = [], pip = [], cargo = [], go = [], nix = [] } = packages
  return {
    ...(tables.isolation !== undefined && { isolation: tables.isolation }),
    ...(tables.docker !== undefined && { docker: tables.docker }),
    environment: {
      ...environment,
      ...(dockerfile !== undefined && { dockerfile: dockerfileWish(dockerfile) }),
      languages: Object.fromEntries(
        Object.entries(languages).map(([name, version]) => [name, version === 'none' ? false : version]),
      ),
      packages: { apt, npm, pip, cargo, go, nix },
      variables,
    },
    services: Object.entries(tables.services ?? {}).map(([name, one]) => serviceWish(name, one)),
    addons: addonWishes(tables.addons ?? {}),
    ports: Object.entries(tables.ports ?? {}).map(([port, { label, public: isPublic = false }]) => ({
      port: Number(port),
      label,
      isPublic,
    })),
    lifecycle: lifecycleWish(tables.lifecycle ?? {}),
    volumes: Object.entries(tables.volumes ?? {}).map(([name, one]) => volumeWish(name, one)),
    ephemeral: ephemeralWish(tables.ephemeral),
    resources: resourcesWish(tables.resources),
    network: wishOf(tables, 'project'),
    agents: agentsWish(tables.agents),
    profiles: new Map(Object.entries(tables.profiles ?? {})),
  }
}

type Tables = { [K in keyof ProjectTables]-?: NonNullable<ProjectTables[K]> }

function addonWishes(table: AddonsTable): AddonWish[] {
  return ADDON_NAMES.flatMap((name) => {
    const one = table[name]
    if (one === undefined || one === false) return []
    return [{ name, port: (one === true ? undefined : one.port) ?? ADDON_PORTS[name] }]
  })
}

function volumeWish(name: string, one: VolumesTable[string]): VolumeWish {
  const { path, read_only: isReadOnly = false, size } = typeof one === 'string' ? { path: one } : one
  return { name, path, isReadOnly, ...(size !== undefined && { sizeMib: readMib(size) }) }
}

function ephemeralWish(table: ProjectTables['ephemeral']): EphemeralWish[] {
  const { paths = [], size } = table ?? {}
  return paths.map((path) => ({ path, ...(size !== undefined && { sizeMib: readMib(size) }) }))
}

function serviceWish(name: string, one: Tables['services'][string]): ServiceWish {
  if (one === false || one.enabled === false) return { kind: 'none', name }
  const { version, port, run, ready, workdir = '', variables = {}, stop = 'SIGTERM' } = one
  if (run !== undefined)
    return { kind: 'command', name, run, ready: readiness(ready), workdir, variables, stopSignal: stop }
  return isServiceName(name) ? { kind: 'known', name, version, port } : { kind: 'none', name }
}

function readiness(ready: Exclude<Tables['services'][string], false>['ready']): Readiness | undefined {
  if (ready === undefined) return undefined
  if (typeof ready === 'string') return { command: ready, timeoutMs: READY_MS }
  const { command, port, timeout } = ready
  return { command, port, timeoutMs: milliseconds(timeout) ?? READY_MS }
}

function lifecycleWish(table: Tables['lifecycle']): ProjectData['lifecycle'] {
  return Object.fromEntries(
    Object.entries(table).map(([verb, said]) => {
      if (said === undefined || said === false) return [verb, false]
      if (typeof said === 'string' || Array.isArray(said)) return [verb, { commands: [said].flat() }]
      return [verb, { commands: [said.run].flat(), inputs: said.inputs }]
    }),
  )
}

export function agentsWish(table: ProjectTables['agents']): AgentsWish {
  const { default: agent, model, time, max_cost, branch, permissions = {} } = table ?? {}
  return {
    default: agent,
    model,
    timeMs: milliseconds(time),
    maxCostUsd: max_cost,
    branch,
    permissions: permissionsWish(permissions),
  }
}

export function resourcesWish(table: ProjectTables['resources']): ResourcesWish {
  const { cpus, memory, disk, pids, bandwidth, timeout, idle, step_timeout } = table ?? {}
  return {
    cpus,
    memoryMib: memory === undefined ? undefined : readMib(memory),
    diskMib: disk === undefined ? undefined : readMib(disk),
    pids,
    bandwidthBytes: bandwidth === undefined ? undefined : readByteSize(bandwidth),
    timeoutMs: milliseconds(timeout),
    idleMs: milliseconds(idle),
    stepMs: milliseconds(step_timeout),
  }
}

function milliseconds(text: string | undefined): number | undefined {
  return text === undefined ? undefined : readMs(text)
}

/** The input of `combine`: everything that needs a grant. */
export function projectWish(data: ProjectData): NetworkWish {
  const privileges = privilegesOf(data)
  return { ...data.network, ...(!hasNoPrivileges(privileges) && { privileges }) }
}

/** SECURITY: CF-02. A user who is root from the start needs no sudo, so it counts as the same privilege. */
function privilegesOf({ environment, ports, agents }: ProjectData): Privileges {
  const { image, dockerfile } = environment
  const images = [...(image === undefined ? [] : [image]), ...(dockerfile?.images ?? [])]
  return {
    sudo: environment.sudo === true || environment.user === 'root',
    ports: ports.filter(({ isPublic }) => isPublic).map(({ port }) => port),
    permissions: allowedKinds(agents.permissions),
    ...(images.length > 0 && { images }),
    ...(dockerfile && { dockerfiles: [dockerfile.file] }),
  }
}

/**
 * SECURITY: CF-02. The data without anything that was not granted; the network is the answer of `combine`.
 */
export function onlyGranted(data: ProjectData, wish: NetworkWish): ProjectData {
  const granted = wish.privileges ?? NO_PRIVILEGES
  const { environment, ports, agents } = data
  const open: readonly number[] | 'any' = granted.ports
  const { image, dockerfile } = environment
  const isBase =
    (image === undefined || hasImage(granted, image)) &&
    (!dockerfile ||
      (hasDockerfile(granted, dockerfile.file) && dockerfile.images.every((one) => hasImage(granted, one))))
  return {
    ...data,
    environment: {
      ...environment,
      sudo: environment.sudo === true && granted.sudo,
      user: environment.user === 'root' && !granted.sudo ? undefined : environment.user,
      // A file that names an image or a Dockerfile has no other base.
      ...(!isBase && { image: undefined, dockerfile: undefined, base: undefined }),
    },
    ports: ports.map((one) => ({
      ...one,
      isPublic: one.isPublic && (open === 'any' || open.includes(one.port)),
    })),
    network: wish,
    agents: { ...agents, permissions: withoutUngranted(agents.permissions, granted.permissions) },
  }
}
