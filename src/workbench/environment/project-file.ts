import { lstatSync } from 'node:fs'
import { join } from 'node:path'

/** Whether a project has an agentpod.toml, also a link that leads nowhere: reading it says so. */
export function hasProjectFile(directory: string): boolean {
  return lstatSync(join(directory, 'agentpod.toml'), { throwIfNoEntry: false }) !== undefined
}
