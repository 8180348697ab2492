/** Creates a project's sandbox in its place of a group, if its compose file asks for one. */
import type { CreateOptions } from '../../client/sandbox.ts'
import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import { interruptibly } from '../on-interrupt.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import type { StartedGroup } from './start-group.ts'

export interface BesideGroup {
  readonly ready: ReadyEnvironment | undefined
  readonly project: Pick<Project, 'directory' | 'name' | 'files'> | undefined
  readonly provider?: string | undefined
  /** Whether the sandbox outlives the command. */
  readonly isKept?: boolean | undefined
  /** Whether it shares no files with other sandboxes of the project. */
  readonly isSeparate?: boolean | undefined
}

/** Starts the other services first. If `create` fails, they are destroyed. */
export async function besideGroup<T>(
  bench: Workbench,
  o: BesideGroup,
  create: (place: CreateOptions['place']) => Promise<T>,
): Promise<T> {
  const group = await groupFor(bench, o)
  if (!group) return create(undefined)
  try {
    return await interruptibly(group.destroy, () => create(group.place))
  } catch (error) {
    await group.destroy().catch(() => undefined)
    throw error
  }
}

/** The group of one sandbox. Undefined if the project's files ask for none. */
export async function groupFor(
  bench: Workbench,
  { ready, project, provider, isKept, isSeparate }: BesideGroup,
): Promise<StartedGroup | undefined> {
  if (!ready?.compose || !project || ready.compose.compose.services.length < 2) return undefined
  const { startComposeGroup } = await import('./start-group.ts')
  const { wish, compose: composed } = ready
  const { compose, service } = composed
  return startComposeGroup(bench, {
    compose,
    main: service.name,
    project,
    wish,
    provider,
    isKept,
    isSeparate,
  })
}
