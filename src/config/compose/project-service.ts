/** Which service of a compose file is the project itself. */
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'
import type { ComposeProject, ComposeService } from './model.ts'

export interface ChosenService {
  readonly service: ComposeService
  /** For people: why this one. */
  readonly why: string
}

/**
 * The service that is built from the project, or that mounts it. Undefined if there is none: then the file
 * starts helpers for a project that runs outside of it.
 */
export function projectService(
  { services, files }: Pick<ComposeProject, 'services' | 'files'>,
  named?: string | undefined,
): ChosenService | undefined {
  if (named !== undefined) {
    const service = services.find(({ name }) => name === named)
    if (service) return { service, why: 'it was named' }
    const near = nearest(
      named,
      services.map(({ name }) => name),
    )
    throw invalid(
      'compose.service',
      `${files.join(', ')} has no active service ${JSON.stringify(named)}`,
      near && `did you mean ${near}?`,
    )
  }
  const mounted = services.filter(({ mounts }) =>
    mounts.some((mount) => mount.kind === 'bind' && mount.source === ''),
  )
  const built = services.filter(({ build }) => build?.context === '')
  // Several services often share one build, as a worker and a web server. The one with a port is for people.
  const [first] = [mounted.filter(({ build }) => build), mounted, built].flatMap((candidates) => [
    ...candidates.filter(({ ports }) => ports.length > 0),
    ...candidates,
  ])
  if (!first) return undefined
  const why = mounted.includes(first) ? 'it mounts the project' : 'it is built from the project'
  return { service: first, why }
}
