/** What the service that is the project itself says about the project's sandbox, besides its base. */
import { posix } from 'node:path'
import type { ResourcesWish } from '../project/data.ts'
import { printable } from '../toml/problem.ts'
import type { ComposeProject, ComposeService } from './model.ts'

export interface ServiceSettings {
  readonly name: string
  readonly user: string | undefined
  /** Where the service has the project; undefined if it does not say. */
  readonly workspace: string | undefined
  /** Names in the workspace that the image fills, such as the directory of installed packages. */
  readonly kept: readonly string[]
  /** Whether the image may have files of its own in the workspace. */
  readonly isFilled: boolean
  /** Directories that must exist. */
  readonly directories: readonly string[]
  readonly resources: ResourcesWish
}

/** A named volume that is mounted, and whether other services mount it too. */
export interface ServiceVolume {
  readonly name: string
  readonly path: string
  readonly isReadOnly: boolean
  readonly isShared: boolean
}

export function serviceSettings(service: ComposeService): ServiceSettings {
  const { name, build, mounts, cpus, memoryMib, pids } = service
  const workspace = workspaceOf(service)
  const targets = mounts.flatMap((one) => (one.kind === 'volume' || one.kind === 'empty' ? [one.target] : []))
  const inside = (path: string): boolean => workspace !== undefined && isBelow(path, workspace)
  return {
    name,
    user: service.user?.split(':')[0],
    workspace,
    kept: [
      ...new Set(
        targets
          .filter(inside)
          .flatMap((path) => posix.relative(workspace ?? '/', path).split('/', 1))
          .filter((one) => one !== ''),
      ),
    ],
    isFilled: build !== undefined,
    directories: targets.filter((path) => !inside(path)),
    resources: {
      ...(cpus !== undefined && { cpus }),
      ...(memoryMib !== undefined && { memoryMib }),
      ...(pids !== undefined && { pids }),
    },
  }
}

/** Volumes in the project's own directory are not mounted: they would hide files of its copy. */
export function serviceVolumes({ services }: ComposeProject, service: ComposeService): ServiceVolume[] {
  const { workspace } = serviceSettings(service)
  const others = services.filter((one) => one !== service)
  return service.mounts.flatMap((mount) => {
    if (mount.kind !== 'volume' || (workspace !== undefined && isBelow(mount.target, workspace))) return []
    const { name, target, isReadOnly } = mount
    const isShared = others.some(({ mounts }) =>
      mounts.some((one) => one.kind === 'volume' && one.name === name),
    )
    return [{ name, path: target, isReadOnly, isShared }]
  })
}

/** What of the service is not used in the sandbox that people work in. */
export function unusedSettings(service: ComposeService): string[] {
  const { name, file, line, mounts, files, ports, user, healthcheck, environment } = service
  const place = line === undefined ? file : `${file}:${line}`
  const { workspace } = serviceSettings(service)
  const project = mounts.find((one) => one.kind === 'bind' && one.source === '')
  const said: string[] = []
  if (project && workspace === undefined)
    said.push(`the project is not at ${printable(project.target)}, which is a directory of the system`)
  if (project?.kind === 'bind' && project.isReadOnly) said.push('the copy of the project can be written')
  for (const mount of mounts) {
    if (mount.kind === 'bind' && mount.source !== '' && !isInCopy(mount, workspace))
      said.push(`what it has at ${printable(mount.target)} is only in the copy of the project`)
    if (mount.kind === 'volume' && workspace !== undefined && isBelow(mount.target, workspace))
      said.push(`the volume ${mount.name} is a directory of the sandbox, because it is in the project`)
  }
  for (const { target } of files)
    said.push(`the file ${printable(target)} is not in this sandbox, which has the project alone`)
  if (user?.includes(':')) said.push(`the group of user ${printable(user)} is not used`)
  if (healthcheck?.test !== undefined) said.push('nothing waits for the health check of this service')
  for (const { target, published } of ports)
    if (published !== undefined && published !== target)
      said.push(`\`agentpod dev\` forwards port ${target} as ${target}, not as ${published}`)
  for (const variable of Object.keys(environment))
    if (!isVariableName(variable)) said.push(`the variable ${printable(variable)} is not set here`)
  return said.map((text) => `${place}: service ${printable(name)}: ${text}`)
}

/** Sandboxes have the names that shells can use; Docker's may have dots and hyphens. */
export function isVariableName(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
}

function isBelow(path: string, directory: string): boolean {
  return posix.normalize(`${path}/`).startsWith(`${directory}/`)
}

function isInCopy(
  { source, target }: { readonly source: string; readonly target: string },
  workspace: string | undefined,
): boolean {
  return workspace !== undefined && trimmed(target) === posix.join(workspace, source)
}

function trimmed(path: string): string {
  return posix.normalize(path).replace(/(?<=.)\/$/, '')
}

const SYSTEM_DIRECTORIES =
  /^\/(?:bin|boot|dev|etc|lib[^/]*|proc|run|sbin|sys|usr(?!\/(?:local\/)?(?:src|app)\/)|var(?!\/(?:www|app|task|project)(?:\/|$)))?(?:\/|$)/

/**
 * The directory of the project's mount; else the one that mounts of its parts agree on, as `./src:/app/src`
 * does. Undefined for a directory of the system.
 */
function workspaceOf({ mounts }: ComposeService): string | undefined {
  const binds = mounts.flatMap((one) => (one.kind === 'bind' ? [one] : []))
  const whole = binds.find(({ source }) => source === '')
  const parts = binds.flatMap(({ source, target }) =>
    source !== '' && trimmed(target).endsWith(`/${source}`)
      ? [trimmed(target).slice(0, -source.length - 1)]
      : [],
  )
  const found = whole ? trimmed(whole.target) : parts[0]
  if (found === undefined || SYSTEM_DIRECTORIES.test(found)) return undefined
  return /^\/[\p{L}\p{N} ._@+/-]{1,500}$/u.test(found) ? found : undefined
}
