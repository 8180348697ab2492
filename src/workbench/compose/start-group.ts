/** Starts the services of a compose file as members of a group, around a sandbox that is created later. */
import { randomBytes } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import {
  memberAliases,
  memberName,
  memberService,
  memberUser,
  runsToEnd,
  serviceWords,
} from '../../config/compose/member-plan.ts'
import type { ComposeProject, ComposeService } from '../../config/compose/model.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { packContents, packFiles } from '../../sync/tar.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { projectVolume } from '../environment/project-volumes.ts'
import { interruptibly } from '../on-interrupt.ts'
import type { Workbench } from '../workbench.ts'
import { enforceableLimits } from './enforceable-limits.ts'
import { imageInfo } from './image-info.ts'
import { checkMembers, type GroupProject, memberFile, whereIs } from './member-files.ts'
import { type MemberImageRef, memberImages } from './member-images.ts'

export interface GroupStart {
  readonly compose: ComposeProject
  /** The service whose place is kept for the project's own sandbox. */
  readonly main: string
  readonly project: GroupProject
  /** What builds of the other services may reach. */
  readonly wish: NetworkWish
  readonly provider?: string | undefined
  /** Whether the members outlive the command: named volumes are then kept across sandboxes. */
  readonly isKept?: boolean | undefined
  /** Whether named volumes are never shared with other sandboxes of the project. */
  readonly isSeparate?: boolean | undefined
}

export interface StartedGroup {
  /** The id of the group. */
  readonly group: string
  /** The place for the project's sandbox. */
  readonly place: { readonly group: string; readonly member: string }
  destroy(): Promise<void>
}

/**
 * How long members live without the project's sandbox; while it exists, they live as long as it. The sandbox
 * of an agent may wait for its turn.
 */
const TTL_MS = 3_600_000
const QUEUED_TTL_MS = 6 * TTL_MS

/** Returns when every member is ready. On failure nothing of the group is left. */
export async function startComposeGroup(bench: Workbench, asked: GroupStart): Promise<StartedGroup> {
  checkMembers(asked.project, asked)
  const o = { ...asked, compose: await enforceableLimits(bench, asked.compose, asked.provider) }
  const images = await memberImages(bench, o)
  const pod = await bench.client()
  const members = o.compose.services.filter(({ name }) => name !== o.main)
  using progress = bench.person.progress({})
  const creating = pod.groups.create({
    name: `${memberName(o.project.name).slice(0, 40)}-${randomBytes(3).toString('hex')}`,
    labels: { 'agentpod/project': o.project.name.slice(0, 200) },
    members: o.compose.services.map((service) => placeOf(o, service)),
  })
  const destroy = async (): Promise<void> => pod.groups.destroy((await creating).id)
  const start = async (): Promise<StartedGroup> => {
    const { id } = await creating
    for (const service of members) {
      progress.status(`starting ${service.name}`)
      const image = images.get(service.name) ?? { ref: '', name: '' }
      await startMember(bench, pod, { ...o, group: id, service, image, say: (line) => progress.status(line) })
    }
    return { group: id, place: { group: id, member: memberName(o.main) }, destroy }
  }
  try {
    return await interruptibly(destroy, start)
  } catch (error) {
    progress.failed(error)
    await destroy().catch(() => undefined)
    throw error
  }
}

function placeOf({ compose, main }: GroupStart, service: ComposeService) {
  const isThere = (name: string): boolean =>
    name !== main && compose.services.some((one) => one.name === name)
  return {
    name: memberName(service.name),
    aliases: memberAliases(compose, service),
    main: service.name === main,
    after: service.dependsOn
      .filter((one) => isThere(one.service) && one.service !== service.name)
      .map((one) => memberName(one.service)),
  }
}

interface MemberStart extends GroupStart {
  readonly group: string
  readonly service: ComposeService
  readonly image: MemberImageRef
  readonly say: (line: string) => void
}

async function startMember(bench: Workbench, pod: AgentPod, o: MemberStart): Promise<void> {
  const { service, compose, group } = o
  const { ref, name } = o.image
  const say = (line: string): void => o.say(`${service.name}: ${line}`)
  const image = await failing(service, () => imageInfo(pod, name, { provider: o.provider, say }))
  if (serviceWords(service, image).length === 0) throw noCommand(service)
  const isOneShot = runsToEnd(compose, service)
  const running = memberService(service, image)
  const user = memberUser(service, image)
  const volumes = await volumesOf(bench, o)
  const ephemeral = service.mounts.flatMap((one) =>
    one.kind === 'tmpfs' ? [{ path: one.target, sizeMib: one.sizeMib }] : [],
  )
  const sandbox = await failing(service, () =>
    pod.create({
      name: undefined,
      labels: { 'agentpod/service': service.name },
      provider: o.provider,
      place: { group, member: memberName(service.name) },
      environment: {
        base: 'image',
        image: ref,
        user,
        // The entrypoints of databases give files to the user of the server, and become that user.
        sudo: isRoot(user),
        variables: running.variables,
        ...(!isOneShot && { services: [running] }),
      },
      resources: { cpus: service.cpus, memoryMib: service.memoryMib, pids: service.pids },
      lifetime: { ttlMs: o.isSeparate ? QUEUED_TTL_MS : TTL_MS, whenOver: 'destroy', autoResume: true },
      volumes,
      ...(ephemeral.length > 0 && { ephemeral }),
    }),
  )
  await failing(service, async () => {
    await bringFiles(sandbox, o)
    if (isOneShot) await runOnce(sandbox, running)
    else await sandbox.begin()
  })
}

function isRoot(user: string): boolean {
  return /^(?:root|0)(?::|$)/.test(user)
}

/**
 * A named volume is a directory of its sandbox, so that parallel runs do not share a database; it is a volume
 * of the project if the sandbox is kept, or if several services use it.
 */
async function volumesOf(bench: Workbench, o: MemberStart): Promise<VolumeRequest[]> {
  const requests: VolumeRequest[] = []
  for (const mount of o.service.mounts) {
    if (mount.kind !== 'volume') continue
    const users = o.compose.services.filter(({ mounts }) =>
      mounts.some((one) => one.kind === 'volume' && one.name === mount.name),
    )
    if ((!o.isKept || o.isSeparate) && users.length < 2) continue
    const volume = await projectVolume(bench, o.project, `compose.${memberName(mount.name)}`, o.provider)
    requests.push({ volume, path: mount.target, readOnly: mount.isReadOnly })
  }
  return requests
}

/** Copies what the service mounts from the project. Changes inside do not come back. */
async function bringFiles(sandbox: Sandbox, { service, project }: MemberStart): Promise<void> {
  const user = 'root'
  for (const { target, content, file } of service.files) {
    const text = content === undefined ? undefined : Buffer.from(content)
    await bringFile(sandbox, target, text ?? memberFile(project, service, file ?? ''))
  }
  for (const mount of service.mounts) {
    if (mount.kind === 'empty' || mount.kind === 'volume' || mount.kind === 'tmpfs') {
      if (mount.kind === 'empty') await sandbox.makeDirectory(mount.target, user).catch(() => undefined)
      continue
    }
    const { source, target } = mount
    if (project.files.includes(source)) {
      await bringFile(sandbox, target, memberFile(project, service, source))
      continue
    }
    const prefix = source === '' ? '' : `${source}/`
    const below = project.files.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length))
    await sandbox.unpack(target, packFiles(join(project.directory, source), below), { user })
  }
}

/** Readable for every user inside, as a mounted file is. */
async function bringFile(sandbox: Sandbox, target: string, data: Buffer): Promise<void> {
  const archive = packContents([{ path: basename(target), data, isExecutable: false }])
  await sandbox.unpack(dirname(target), archive, { user: 'root' })
}

async function runOnce(
  sandbox: Sandbox,
  { run, user, workdir, variables }: ReturnType<typeof memberService>,
): Promise<void> {
  const child = sandbox.exec('/bin/sh', { args: ['-c', run], user, cwd: workdir, env: variables })
  const { exitCode, stdout, stderr } = await child.wait()
  if (exitCode === 0) return
  const output = showHidden(`${stdout}${stderr}`.trim().slice(-2000))
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'compose.failed',
    message: `it ended with code ${exitCode}${output === '' ? '' : `: ${output}`}`,
    hint: 'other services wait for it: service_completed_successfully',
  })
}

/** The error of one service names it, with its place in the file. */
async function failing<T>(service: ComposeService, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isAgentPodError(error)) throw error
    const { code, reason, message, hint, details } = error
    throw new AgentPodError({
      code,
      reason,
      message: `${whereIs(service)}: service ${service.name}: ${message}`,
      hint: reason.startsWith('service.')
        ? 'fix the service or its health check; --no-compose runs without the compose file'
        : (hint ?? '--no-compose runs without the compose file'),
      details,
      cause: error,
    })
  }
}

function noCommand(service: ComposeService): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'compose.command',
    message: `${whereIs(service)}: neither service ${service.name} nor its image names a command`,
    hint: 'add a command to the service',
  })
}
