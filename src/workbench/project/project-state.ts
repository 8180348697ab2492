/** The directory with what the workbench keeps about a repository between runs. */
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../../core/home.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'

/**
 * Identifies a repository without revealing its path to the server. All working trees of a repository share
 * one key.
 */
export function projectKey({ commonDir }: Pick<Repository, 'commonDir'>): string {
  return createHash('sha256').update(realpathSync(commonDir)).digest('hex')
}

/** SECURITY: the key may come from a server and becomes part of a path, so it is checked. */
export function projectDirectory({ root }: Pick<Home, 'root'>, key: string): string {
  if (!/^[0-9a-f]{64}$/.test(key)) throw new Error('not the key of a project')
  return join(root, 'projects', key)
}

/**
 * Objects of uncommitted files at the start of a run: no repository of the user has them, and its branch
 * needs them.
 */
export function startObjects(home: Pick<Home, 'root'>, key: string, tree: ObjectId): string {
  if (!OBJECT_ID.test(tree)) throw new Error('not the id of a tree')
  return join(projectDirectory(home, key), `${STARTS}${tree}`)
}

/** Trees whose objects were kept long ago. */
export function oldStarts(home: Pick<Home, 'root'>, key: string): ObjectId[] {
  const directory = projectDirectory(home, key)
  return readdirSync(directory)
    .filter((name) => name.startsWith(STARTS) && isOlder(join(directory, name), OLD_START_MS))
    .map((name) => name.slice(STARTS.length))
    .filter((tree) => OBJECT_ID.test(tree))
}

/** In the name of a directory that is still being written. */
export const DRAFT = '-draft-'

/** A temporary directory, removed when it is disposed of. */
export function scratchOf(home: Pick<Home, 'root'>, key: string): Disposable & { readonly path: string } {
  const directory = projectDirectory(home, key)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  removeForgotten(directory)
  const path = mkdtempSync(join(directory, SCRATCH))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

const SCRATCH = 'scratch-'
const STARTS = 'objects-'
const OLD_START_MS = 30 * 24 * 3_600_000
/** No command uses a temporary directory for so long. */
const FORGOTTEN_MS = 24 * 3_600_000

/** Removes what killed commands left behind: a result may take gigabytes. */
function removeForgotten(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (!name.startsWith(SCRATCH) && !name.includes(DRAFT)) continue
    const path = join(directory, name)
    if (isOlder(path, FORGOTTEN_MS)) rmSync(path, { recursive: true, force: true })
  }
}

function isOlder(path: string, ms: number): boolean {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info !== undefined && systemClock.now() - info.mtimeMs > ms
}
