/** Apart from the project's own volumes, whose file takes long to load code for. */
import { invalid } from '../../core/error.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'

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
