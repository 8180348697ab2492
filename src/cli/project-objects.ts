/** Where the client keeps what it knows of a repository between runs. */
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../core/home.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../sync/git/repository.ts'
import { systemClock } from '../util/clock.ts'

/** Tells repositories of one user apart, without telling a server where they lie. All working trees of a repository have one key. */
export function projectKey({ commonDir }: Pick<Repository, 'commonDir'>): string {
  return createHash('sha256').update(realpathSync(commonDir)).digest('hex')
}

/** SECURITY: a server names the key of a run's project, and a path is made of it. */
export function projectDirectory({ root }: Pick<Home, 'root'>, key: string): string {
  if (!/^[0-9a-f]{64}$/.test(key)) throw new Error('this is not the key of a project')
  return join(root, 'projects', key)
}

/** Objects of a start that was not committed: they are in no repository of the user's, and a branch of the run needs them. */
export function startObjects(home: Pick<Home, 'root'>, key: string, tree: ObjectId): string {
  if (!OBJECT_ID.test(tree)) throw new Error('this is not the id of a tree')
  return join(projectDirectory(home, key), `${STARTS}${tree}`)
}

/** Starts that were kept long ago. */
export function oldStarts(home: Pick<Home, 'root'>, key: string): ObjectId[] {
  const directory = projectDirectory(home, key)
  return readdirSync(directory)
    .filter((name) => name.startsWith(STARTS) && isOlder(join(directory, name), OLD_START_MS))
    .map((name) => name.slice(STARTS.length))
    .filter((tree) => OBJECT_ID.test(tree))
}

/** Of a start that is being kept. */
export const DRAFT = '-draft-'

/** A directory for as long as it is held. */
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
/** No command holds one for so long. */
const FORGOTTEN_MS = 24 * 3_600_000

/** What commands that were killed left behind: a result may take gigabytes. */
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
