/** The volumes that a project's file asks for. They are created when they are first used. */
import type { AgentPod } from '../../client/client.ts'
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import type { Evidence } from '../../config/evidence.ts'
import type { ExplainedChoice } from '../../config/plan/explained-choice.ts'
import type { VolumeWish } from '../../config/project/data.ts'
import { homeOf } from '../../core/environment.ts'
import { isAgentPodError } from '../../core/error.ts'
import { checkMountPaths, parseMountPath } from '../../core/volume/mount-path.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { nameOnMachine } from '../project/project-name.ts'
import type { Workbench } from '../workbench.ts'

/** What `agentpod config explain` says about them. */
export function explainVolumes(
  project: VolumeOwner,
  more: readonly (VolumeWish & { readonly evidence: Evidence })[] = [],
): ExplainedChoice[] {
  const file = readProjectFile(project.directory)
  const others = more.map(
    ({ name, path, isReadOnly, evidence }): ExplainedChoice => ({
      key: `volumes.${name}`,
      value: `${volumeNameOf(project, name)} at ${path}${isReadOnly ? ', read-only' : ''}`,
      rank: 'devcontainer',
      from: evidence,
      beat: [],
    }),
  )
  const own = (file?.data.volumes ?? []).map(
    ({ name, path, isReadOnly }): ExplainedChoice => ({
      key: `volumes.${name}`,
      value: `${volumeNameOf(project, name)} at ${path}${isReadOnly ? ', read-only' : ''}`,
      rank: 'agentpod.toml',
      from: { file: PROJECT_FILE, line: file?.at(['volumes', name])?.line, said: path },
      beat: [],
    }),
  )
  return [...own, ...others]
}

interface VolumeOwner {
  readonly directory: string
  readonly name: string
}

/** Creates the missing ones. `user` decides what `~` is. */
export async function projectVolumes(
  bench: Workbench,
  project: VolumeOwner,
  o: {
    readonly user: string
    readonly provider: string | undefined
    /** Volumes that another file than agentpod.toml asks for. */
    readonly more?: readonly VolumeWish[] | undefined
  },
): Promise<VolumeRequest[]> {
  const own = readProjectFile(project.directory)?.data.volumes ?? []
  const isOwn = ({ name, path }: VolumeWish): boolean =>
    own.some((one) => one.name === name || one.path === path)
  const wishes = [...own, ...(o.more ?? []).filter((one) => !isOwn(one))]
  if (wishes.length === 0) return []
  const pod = await bench.client()
  const requests: VolumeRequest[] = []
  for (const wish of wishes) {
    const volume = volumeNameOf(project, wish.name)
    await ensureVolume(pod, volume, wish, o.provider)
    const path = parseMountPath(wish.path.replace(/^~(?=\/)/, homeOf(o.user)))
    requests.push({ volume, path, ...(wish.isReadOnly && { readOnly: true }) })
  }
  checkMountPaths(requests.map(({ path }) => path))
  return requests
}

/**
 * SECURITY: CF-03. The name contains the place of the project on this machine, so a project's file cannot
 * name a volume of another project, or one that a person made.
 */
export function volumeNameOf(project: VolumeOwner, key: string): string {
  return `${nameOnMachine(project)}.${key}`
}

/** A volume of the project, created if it is missing. Returns its name. */
export async function projectVolume(
  bench: Workbench,
  project: VolumeOwner,
  key: string,
  provider: string | undefined,
): Promise<string> {
  const name = volumeNameOf(project, key)
  await ensureVolume(await bench.client(), name, { sizeMib: undefined }, provider)
  return name
}

async function ensureVolume(
  pod: AgentPod,
  name: string,
  { sizeMib }: Pick<VolumeWish, 'sizeMib'>,
  provider: string | undefined,
): Promise<void> {
  try {
    await pod.volumes.get(name)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
    try {
      await pod.volumes.create({ name, sizeMib, provider })
    } catch (taken) {
      // Another call has created it meanwhile.
      if (!isAgentPodError(taken, 'already_exists')) throw taken
    }
  }
}

/** Volumes of the options first; those of the project's file where the options mount nothing. */
export function mergedVolumes(
  asked: readonly VolumeRequest[] | undefined,
  own: readonly VolumeRequest[],
): { volumes: VolumeRequest[] } | Record<string, never> {
  const rest = own.filter(({ path }) => !asked?.some((one) => one.path === path))
  const volumes = [...(asked ?? []), ...rest]
  return volumes.length === 0 ? {} : { volumes }
}
