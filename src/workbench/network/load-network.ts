/**
 * The network of a new sandbox. Most calls ask for nothing and have no file that does: then the code that
 * reads the files is not loaded, and nothing is sent.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Workbench } from '../workbench.ts'
import type { NetworkOptions, NetworkSources } from './network-options.ts'
import type { PreparedNetwork } from './prepare-network.ts'

export async function loadNetwork(
  bench: Workbench,
  request: NetworkOptions | undefined,
  { directory, wish }: NetworkSources,
): Promise<PreparedNetwork | undefined> {
  const files = [
    join(bench.home.root, 'config.toml'),
    ...(directory === undefined ? [] : [join(directory, 'agentpod.toml')]),
  ]
  if (!request && !wish && !files.some((file) => existsSync(file))) return undefined
  const { prepareNetwork } = await import('./prepare-network.ts')
  return prepareNetwork(bench, request ?? {}, { directory, wish })
}
