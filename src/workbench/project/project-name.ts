/** A name for what belongs to one project on this machine. */
import { realpathSync } from 'node:fs'
import { sha256Hex } from '../../util/sha256.ts'

/**
 * SECURITY: CF-03. It contains the place of the project on this machine, so a project's file cannot name
 * what belongs to another project.
 */
export function nameOnMachine({
  directory,
  name,
}: {
  readonly directory: string
  readonly name: string
}): string {
  const plain = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 20)
    .replace(/-$/, '')
  return `${plain || 'project'}-${sha256Hex(realpathSync(directory)).slice(0, 8)}`
}
