/**
 * The regular files of a directory and those below it. Links are not followed: one may lead to files of the
 * host.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

export function filesBelow(directory: string, prefix = ''): string[] {
  return readdirSync(join(directory, prefix), { withFileTypes: true }).flatMap((entry) => {
    const name = join(prefix, entry.name)
    if (entry.isDirectory()) return filesBelow(directory, name)
    return entry.isFile() ? [name] : []
  })
}
