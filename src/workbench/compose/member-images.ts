/** The images of the services that run beside the project: pulled, or built from their Dockerfiles. */
import type { ComposeProject, ComposeService } from '../../config/compose/model.ts'
import { serviceDockerfile } from '../../config/compose/service-dockerfile.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import { atDigest, imageText, parseImageRef } from '../../core/image-ref.ts'
import { buildProjectDockerfile } from '../dockerfile/project-dockerfile.ts'
import { buildCallbacks } from '../environment/build-callbacks.ts'
import { treeOf } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'
import type { GroupProject } from './member-files.ts'

export interface MemberBuilds {
  readonly compose: ComposeProject
  /** The service that is the project itself; its image is not built here. */
  readonly main: string
  readonly project: GroupProject
  /** What the project may reach. */
  readonly wish: NetworkWish
  readonly provider?: string | undefined
}

export interface MemberImageRef {
  /** Exactly this image. */
  readonly ref: string
  /** The name under which it is stored. */
  readonly name: string
}

/** By service. Nothing is started. Images of registries are pulled when they are used. */
export async function memberImages(
  bench: Workbench,
  o: MemberBuilds,
): Promise<ReadonlyMap<string, MemberImageRef>> {
  const images = new Map<string, MemberImageRef>()
  const tree = treeOf(o.project)
  for (const service of o.compose.services) {
    if (service.name === o.main) continue
    const dockerfile = serviceDockerfile(tree, service)
    images.set(
      service.name,
      dockerfile
        ? await builtImage(bench, o, service, dockerfile)
        : { ref: service.image ?? '', name: service.image ?? '' },
    )
  }
  return images
}

/** SECURITY: CF-04. Built as the project's own Dockerfile is: in sandboxes, from files of the project. */
async function builtImage(
  bench: Workbench,
  { project, wish, provider }: MemberBuilds,
  service: ComposeService,
  dockerfile: NonNullable<ReturnType<typeof serviceDockerfile>>,
): Promise<MemberImageRef> {
  const { name, file, line } = service
  const evidence = { file, line, said: `services.${name}.build` }
  using progress = bench.person.progress({ project: `${project.name} ${name}`, isDockerfile: true })
  try {
    const { image } = await buildProjectDockerfile(
      bench,
      project,
      { dockerfile, wish, evidence, service: name },
      { ...buildCallbacks(progress), provider },
    )
    if (!image) throw new TypeError(`the build of ${name} has no image`)
    return { ref: imageText(atDigest(parseImageRef(image.ref), image.digest)), name: image.ref }
  } catch (error) {
    progress.failed(error)
    throw error
  }
}
