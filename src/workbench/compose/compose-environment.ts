/** The environment of a project whose compose file has a service for it. */
import type { CreateOptions } from '../../client/sandbox.ts'
import type { Detected } from '../../config/detect/detect.ts'
import { buildEnvironment } from '../environment/build-environment.ts'
import { hasNothing } from '../environment/detect-project.ts'
import type { SaidEphemeral } from '../environment/ephemeral-directories.ts'
import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import type { SandboxRequest } from '../environment/sandbox-request.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { type ProjectCompose, withoutServices } from './project-compose.ts'

export interface ComposeEnvironmentOptions {
  readonly request: SandboxRequest
  readonly detected: Detected
  readonly compose: ProjectCompose
  readonly provider?: string | undefined
}

/**
 * The sandbox has the detected environment, with tools for the project's tests, and the variables of the
 * service. Its services are members of the group. If nothing is detected, it has the image of the service.
 */
export async function composeEnvironment(
  bench: Workbench,
  project: Project,
  { request, detected, compose, provider }: ComposeEnvironmentOptions,
): Promise<ReadyEnvironment | undefined> {
  const own = withoutServices(detected)
  const { service } = compose
  const isEmpty = hasNothing(own)
  const image = isEmpty && !service.build ? service.image : undefined
  for (const text of notesOf(compose, isEmpty)) bench.person.notice({ kind: 'note', text })
  const ready = await buildEnvironment(bench, project, {
    detected: own,
    provider,
    profile: request.profile,
    image,
    base: isEmpty && image === undefined ? 'host' : undefined,
  })
  if (!ready) return undefined
  const known = new Set(ready.ports.map(({ port }) => port))
  const ports = service.ports.filter(({ target }) => !known.has(target))
  return {
    ...ready,
    compose,
    ephemeral: [...ready.ephemeral, ...ephemeralOf(compose)],
    ports: [...ready.ports, ...ports.map(({ target }) => ({ port: target, label: service.name }))],
    apply(options: CreateOptions): CreateOptions {
      const { environment = {}, ...rest } = ready.apply(options)
      const variables = {
        ...environment.variables,
        ...service.environment,
        ...options.environment?.variables,
      }
      return { ...rest, environment: { ...environment, variables } }
    },
  }
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

function notesOf({ compose, service, why }: ProjectCompose, isEmpty: boolean): string[] {
  const others = compose.services.filter((one) => one !== service).map(({ name }) => name)
  const place = service.line === undefined ? service.file : `${service.file}:${service.line}`
  return [
    `${place}: this sandbox is the service ${service.name}, because ${why}; ${others.join(', ')} run beside it`,
    ...(isEmpty && service.build
      ? [`${place}: the Dockerfile of ${service.name} is not used; name it in agentpod.toml`]
      : []),
    ...compose.notes.map(
      ({ file, line, said }) => `${line === undefined ? file : `${file}:${line}`}: ${said}`,
    ),
  ]
}
