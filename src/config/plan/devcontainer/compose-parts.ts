/** What the service of a compose file gives to the devcontainer that it is. */
import { inactiveNotes } from '../../compose/inactive-notes.ts'
import { type MemberImage, type MemberService, memberName, memberUser } from '../../compose/member-plan.ts'
import type { ComposeService } from '../../compose/model.ts'
import type { DevcontainerCompose } from '../../devcontainer/compose-source.ts'
import type { DevcontainerFile } from '../../devcontainer/devcontainer-file.ts'
import type { DevcontainerPlan } from '../../devcontainer/devcontainer-plan.ts'
import type { Evidence } from '../../evidence.ts'
import type { EphemeralWish, ResourcesWish, VolumeWish } from '../../project/data.ts'
import { mainCommand } from './main-command.ts'

export interface DevcontainerGroup {
  readonly compose: DevcontainerCompose
  /** Whether no other service runs. */
  readonly isAlone: boolean
}

export interface ComposeParts {
  readonly user: string | undefined
  readonly variables: readonly {
    readonly name: string
    readonly value: string
    readonly evidence: Evidence
  }[]
  readonly volumes: readonly (VolumeWish & { readonly evidence: Evidence })[]
  readonly ephemeral: readonly (EphemeralWish & { readonly evidence: Evidence })[]
  /** Empty directories, for anonymous volumes. */
  readonly directories: readonly string[]
  readonly resources: ResourcesWish
  readonly notes: readonly string[]
  /** Its command, as the user of the container. */
  mainFor(user: string): MemberService | undefined
}

const NONE: ComposeParts = {
  user: undefined,
  variables: [],
  volumes: [],
  ephemeral: [],
  directories: [],
  resources: {},
  notes: [],
  mainFor: () => undefined,
}

export function composeParts(
  group: DevcontainerGroup | undefined,
  o: {
    readonly document: DevcontainerFile
    readonly plan: DevcontainerPlan
    readonly image: MemberImage
  },
): ComposeParts {
  if (!group) return NONE
  const { document, plan, image } = o
  const { service, compose, left } = group.compose
  const { file, line } = service
  const said = (text: string): Evidence => ({ file, line, said: `services.${service.name}.${text}` })
  const { cpus, memoryMib, pids } = service
  const command = plan.isCommandStarted ? mainCommand(service, image) : undefined
  const runServices = document.at(['runServices'])?.line
  return {
    user: service.user === undefined ? undefined : memberUser(service, image),
    variables: Object.entries(service.environment).map(([name, value]) => ({
      name,
      value,
      evidence: said(`environment ${name}`),
    })),
    volumes: service.mounts.flatMap((mount) =>
      mount.kind === 'volume'
        ? [
            {
              // The name that other services of the group use for the same volume.
              name: `compose.${memberName(mount.name)}`,
              path: mount.target,
              isReadOnly: mount.isReadOnly,
              evidence: said(`volumes ${mount.name}`),
            },
          ]
        : [],
    ),
    ephemeral: service.mounts.flatMap((mount) =>
      mount.kind === 'tmpfs'
        ? [{ path: mount.target, sizeMib: mount.sizeMib, evidence: said(`tmpfs ${mount.target}`) }]
        : [],
    ),
    directories: service.mounts.flatMap((mount) => (mount.kind === 'empty' ? [mount.target] : [])),
    resources: {
      ...(cpus !== undefined && { cpus }),
      ...(memoryMib !== undefined && { memoryMib }),
      ...(pids !== undefined && { pids }),
    },
    notes: [
      ...compose.notes.map(
        (note) => `${note.line === undefined ? note.file : `${note.file}:${note.line}`}: ${note.said}`,
      ),
      ...(left.length > 0
        ? [`${document.file}:${runServices ?? 1}: runServices leaves out ${left.join(', ')}`]
        : []),
      ...inactiveNotes(compose),
      ...unusedParts(service),
      ...(command?.notes ?? []),
    ],
    mainFor: (user) => command?.service && { ...command.service, user },
  }
}

/** The sandbox has a copy of the project at the workspace folder, and no other files of it. */
function unusedParts({ name, file, line, mounts, files }: ComposeService): string[] {
  const place = line === undefined ? file : `${file}:${line}`
  const binds = mounts.filter((mount) => mount.kind === 'bind' && mount.source !== '')
  return [...binds, ...files].map(
    ({ target }) =>
      `${place}: what service ${name} has at ${target} is not used: the sandbox that you work in has the project at workspaceFolder only`,
  )
}
