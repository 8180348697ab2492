/** Where the client keeps what it knows of a repository between runs. */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../core/home.ts'
import { OBJECT_ID, type ObjectId } from '../sync/git/repository.ts'

/** Tells repositories of one user apart, without telling a server where they lie. */
export function projectKey(root: string): string {
  return createHash('sha256').update(realpathSync(root)).digest('hex')
}

/** SECURITY: a server names the key of a run's project, and a path is made of it. */
export function projectDirectory({ root }: Pick<Home, 'root'>, key: string): string {
  if (!/^[0-9a-f]{64}$/.test(key)) throw new Error('this is not the key of a project')
  return join(root, 'projects', key)
}

/** Objects of a start that was not committed: they are in no repository of the user's, and a branch of the run needs them. */
export function startObjects(home: Pick<Home, 'root'>, key: string, tree: ObjectId): string {
  if (!OBJECT_ID.test(tree)) throw new Error('this is not the id of a tree')
  return join(projectDirectory(home, key), `objects-${tree}`)
}

/** A directory for as long as it is held. */
export function scratchOf(home: Pick<Home, 'root'>, key: string): Disposable & { readonly path: string } {
  const directory = projectDirectory(home, key)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const path = mkdtempSync(join(directory, 'scratch-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}
