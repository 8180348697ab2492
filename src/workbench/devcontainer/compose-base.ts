/** The base of a devcontainer that is a service of compose files. */
import { posix } from 'node:path'
import {
  type ComposeRequest,
  type DevcontainerCompose,
  devcontainerCompose,
} from '../../config/devcontainer/compose-source.ts'
import type { Privileges } from '../../config/grants/privileges.ts'
import type { DevcontainerBase } from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { dockerfileImages } from '../../config/project/dockerfile-images.ts'
import { LARGEST_DOCKERFILE } from '../../core/build/dockerfile.ts'
import { invalid } from '../../core/error.ts'
import { readInside } from '../../util/file/read-inside.ts'
import type { ComposeOptions } from '../compose/project-compose.ts'

type ComposeService = DevcontainerCompose['service']

export function composeBase(
  { document, source, tree, directory }: Omit<ComposeRequest, 'profiles'>,
  o: ComposeOptions = {},
): DevcontainerBase {
  if (o.service !== undefined && o.service !== source.service)
    throw invalid(
      'devcontainer.service',
      `${document.file}:${document.at(['service'])?.line ?? 1} names the service ${source.service}, and --service names ${JSON.stringify(o.service)}`,
      '--no-devcontainer uses the compose file without devcontainer.json',
    )
  const compose = devcontainerCompose({ document, source, tree, directory, profiles: o.profiles })
  const { service } = compose
  const { file, line, image } = service
  const group = { compose, isAlone: o.isOff === true || compose.compose.services.length < 2 }
  if (!service.build)
    return {
      image,
      group,
      evidence: { file, line, said: `services.${service.name}.image ${JSON.stringify(image)}` },
    }
  const { target, args } = service.build
  const dockerfile = dockerfileOf(service.build)
  const text = readInside(directory, dockerfile, LARGEST_DOCKERFILE)?.data.toString('utf8')
  return {
    dockerfile: {
      file: dockerfile,
      context: service.build.context,
      target,
      args,
      images: text === undefined ? [] : dockerfileImages(text, args),
    },
    group,
    evidence: { file, line, said: `services.${service.name}.build ${JSON.stringify(dockerfile)}` },
  }
}

/** Relative to the project. */
export function dockerfileOf({ context, dockerfile }: NonNullable<ComposeService['build']>): string {
  return posix.join(context, dockerfile ?? 'Dockerfile')
}

/** The images and Dockerfiles of the other services that run. */
export function groupPrivileges({ group }: DevcontainerBase): Required<
  Pick<Privileges, 'images' | 'dockerfiles'>
> & {
  readonly images: readonly string[]
  readonly dockerfiles: readonly string[]
} {
  const { service, compose } = group?.compose ?? {}
  const others = group?.isAlone ? [] : (compose?.services ?? []).filter((one) => one !== service)
  return {
    images: others.flatMap(({ image, build }) => (image === undefined || build ? [] : [image])),
    dockerfiles: others.flatMap(({ build }) => (build ? [dockerfileOf(build)] : [])),
  }
}
