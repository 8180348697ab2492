/** The base of a devcontainer that is a service of compose files. */
import { serviceDockerfile } from '../../config/compose/service-dockerfile.ts'
import { type ComposeRequest, devcontainerCompose } from '../../config/devcontainer/compose-source.ts'
import type { FileTree } from '../../config/file-tree.ts'
import type { Privileges } from '../../config/grants/privileges.ts'
import type { DevcontainerBase } from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { invalid } from '../../core/error.ts'
import type { ComposeOptions } from '../compose/project-compose.ts'

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
  const dockerfile = serviceDockerfile(tree, service)
  return {
    dockerfile,
    group,
    evidence: { file, line, said: `services.${service.name}.build ${JSON.stringify(dockerfile?.file)}` },
  }
}

/** The images and Dockerfiles of the other services that run. */
export function groupPrivileges(
  { group }: DevcontainerBase,
  tree: Pick<FileTree, 'read'>,
): Required<Pick<Privileges, 'images' | 'dockerfiles'>> & {
  readonly images: readonly string[]
  readonly dockerfiles: readonly string[]
} {
  const { service, compose } = group?.compose ?? {}
  const others = group?.isAlone ? [] : (compose?.services ?? []).filter((one) => one !== service)
  const built = others.flatMap((one) => serviceDockerfile(tree, one) ?? [])
  const named = others.flatMap(({ image, build }) => (image === undefined || build ? [] : [image]))
  return {
    images: [...named, ...built.flatMap(({ images }) => images)],
    dockerfiles: built.map(({ file }) => file),
  }
}
