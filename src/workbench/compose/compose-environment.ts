/** The environment of a project whose compose file has a service for it. */
import type { CreateOptions } from '../../client/sandbox.ts'
import { memberName, serviceWords } from '../../config/compose/member-plan.ts'
import { serviceVolumes } from '../../config/compose/service-settings.ts'
import type { Detected } from '../../config/detect/detect.ts'
import { isWaiting } from '../../config/detect/formats/compose.ts'
import { placeText } from '../../config/evidence.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import { projectImage } from '../dockerfile/project-dockerfile.ts'
import { buildEnvironment } from '../environment/build-environment.ts'
import type { SaidEphemeral } from '../environment/place-ephemeral.ts'
import { mergedVolumes, projectVolume } from '../environment/project-volumes.ts'
import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import type { SandboxRequest } from '../environment/sandbox-request.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { composeNotes, composePlan } from './compose-plan.ts'
import { enforceableLimits } from './enforceable-limits.ts'
import { imageInfo } from './image-info.ts'
import type { ProjectCompose } from './project-compose.ts'

export interface ComposeEnvironmentOptions {
  readonly request: SandboxRequest
  readonly detected: Detected
  readonly compose: ProjectCompose
  readonly provider?: string | undefined
}

export async function composeEnvironment(
  bench: Workbench,
  project: Project,
  { request, detected, compose: found, provider }: ComposeEnvironmentOptions,
): Promise<ReadyEnvironment | undefined> {
  const services = await enforceableLimits(bench, found.compose, provider)
  const service = services.services.find(({ name }) => name === found.service.name) ?? found.service
  const compose: ProjectCompose = { ...found, compose: services, service }
  for (const text of composeNotes(compose)) bench.person.notice({ kind: 'note', text })
  const ready = await buildEnvironment(bench, project, {
    ...composePlan(compose, detected),
    provider,
    profile: request.profile,
  }).catch((error: unknown) => {
    throw isAgentPodError(error) ? withOtherWay(error, compose) : error
  })
  if (!ready) return undefined
  const isKept = request.isKept || request.isCurrent
  const volumes: VolumeRequest[] = []
  for (const { name, path, isReadOnly, isShared } of serviceVolumes(compose.compose, compose.service)) {
    if (!isKept && !isShared) continue
    const volume = await projectVolume(bench, project, `compose.${memberName(name)}`, provider)
    volumes.push({ volume, path, ...(isReadOnly && { readOnly: true }) })
  }
  const whole: ReadyEnvironment = {
    ...ready,
    compose,
    ephemeral: [...ready.ephemeral, ...ephemeralOf(compose)],
    apply(options: CreateOptions): CreateOptions {
      const applied = ready.apply(options)
      return { ...applied, ...mergedVolumes(applied.volumes, volumes) }
    },
  }
  const { image } = whole.apply({}).environment ?? {}
  const name = compose.service.build ? projectImage(project) : image
  return withImageCommand(bench, whole, { name, provider })
}

/** The image of a service may be one for production, without the tools that the project's steps need. */
function withOtherWay(error: AgentPodError, { service }: ProjectCompose): AgentPodError {
  const { code, reason, message, hint, details } = error
  if (code === 'canceled') return error
  const other = `the base is that of ${placeText(service)}, service ${service.name}; --no-compose uses the detected environment`
  return new AgentPodError({
    code,
    reason,
    message,
    hint: hint === undefined ? other : `${hint}; ${other}`,
    details,
    cause: error,
  })
}

/** As with Docker, the image's own entrypoint and command are used where the file names none. */
async function withImageCommand(
  bench: Workbench,
  ready: ReadyEnvironment,
  { name, provider }: { readonly name: string | undefined; readonly provider: string | undefined },
): Promise<ReadyEnvironment> {
  const { service } = ready.compose ?? {}
  const isFound = ready.commands.dev.length > 0 && service?.command === undefined
  if (!service || name === undefined || isFound || service.entrypoint) return ready
  const image = await imageInfo(await bench.client(), name, { provider }).catch((error: unknown) => {
    // A provider without images, or an image that is gone: `dev` says that there is no command.
    if (isAgentPodError(error)) return undefined
    throw error
  })
  const words = image ? serviceWords(service, image) : []
  const isAsInFile = service.command !== undefined && image?.entrypoint.length === 0
  if (!image || words.length === 0 || isAsInFile || isWaiting(words)) return ready
  const directory = service.workingDir ?? image.workdir ?? ready.workspace
  const run = `${directory === undefined ? '' : `cd ${shellWord(directory)} && `}exec ${words.map(shellWord).join(' ')}`
  return { ...ready, commands: { ...ready.commands, dev: [{ directory: '', run }] } }
}

/** A tmpfs in the directory where the service mounts the project is in the project's copy. */
function ephemeralOf({ service: { mounts, file, line } }: ProjectCompose): SaidEphemeral[] {
  const project = mounts.find((one) => one.kind === 'bind' && one.source === '')?.target
  return mounts.flatMap((one) => {
    if (one.kind !== 'tmpfs') return []
    const { target, sizeMib } = one
    const path =
      project !== undefined && target.startsWith(`${project}/`) ? target.slice(project.length + 1) : target
    const evidence = { file, line, said: `tmpfs ${target}` }
    return [{ path, ...(sizeMib !== undefined && { sizeMib }), evidence }]
  })
}
