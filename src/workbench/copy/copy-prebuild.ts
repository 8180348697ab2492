/** What the commands of a devcontainer that prepare a copy run with. */

import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import type { PreparedNetwork } from '../network/prepare-network.ts'
import type { CopyPrebuild } from '../project/kept-snapshot.ts'

/** Without the variables of this call: the copy is for later calls too. */
export function copyPrebuild(
  ready: ReadyEnvironment | undefined,
  network: PreparedNetwork | undefined,
): CopyPrebuild | undefined {
  if (!ready?.prebuild) return undefined
  const { variables, unset, path, sudo } = ready.apply({}).environment ?? {}
  return {
    scripts: ready.prebuild,
    environment: { variables: { ...network?.variables, ...variables }, unset, path, sudo },
    network: network?.network,
    files: network?.files ?? [],
  }
}
