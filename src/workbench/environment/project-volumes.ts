/** The volumes that a project's file asks for. They are created when they are first used. */
import type { AgentPod } from '../../client/client.ts'
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import type { ExplainedChoice } from '../../config/plan/explain.ts'
import type { VolumeWish } from '../../config/project/data.ts'
import { homeOf } from '../../core/environment.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { checkMountPaths, parseMountPath } from '../../core/volume/mount-path.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { nameOnMachine } from '../project/project-name.ts'
import type { Workbench } from '../workbench.ts'

/** What `agentpod config explain` says about them. */
export function explainVolumes(project: VolumeOwner): ExplainedChoice[] {
  const file = readProjectFile(project.directory)
  return (file?.data.volumes ?? []).map(({ name, path, isReadOnly }) => ({
    key: `volumes.${name}`,
    value: `${volumeNameOf(project, name)} at ${path}${isReadOnly ? ', read-only' : ''}`,
    rank: 'agentpod.toml',
    from: { file: PROJECT_FILE, line: file?.at(['volumes', name])?.line, said: path },
    beat: [],
  }))
}

interface VolumeOwner {
  readonly directory: string
  readonly name: string
}

/** Creates the missing ones. `user` decides what `~` is. */
export async function projectVolumes(
  bench: Workbench,
  project: VolumeOwner,
  o: { readonly user: string; readonly provider: string | undefined },
): Promise<VolumeRequest[]> {
  const wishes = readProjectFile(project.directory)?.data.volumes ?? []
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

async function ensureVolume(
  pod: AgentPod,
  name: string,
  { sizeMib }: VolumeWish,
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

/** Refuses a volume that would hide the copy of the project. */
export function checkBesideWorkspace(volumes: readonly VolumeRequest[] | undefined, workspace: string): void {
  const hiding = volumes?.find(({ path }) => `${workspace}/`.startsWith(`${path}/`))
  if (!hiding) return
  throw invalid(
    'volume.workspace',
    `the volume ${hiding.volume} at ${hiding.path} would hide the copy of the project in ${workspace}`,
    'mount it at another path, or start without the project: --no-project',
  )
}
