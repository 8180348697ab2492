/** Lists the files of a working copy from its index and what git found to differ. */
import { dirname, join, relative, resolve } from 'node:path'
import { checkFileCount, isText, listInside, look, realDirectories } from '../../project-files.ts'
import { bytesOf } from '../plumbing/byte-names.ts'
import type { Repository } from '../plumbing/repository.ts'
import type { ReadIndex } from './read-index.ts'
import type { Differences } from './working-copy.ts'

/** As `listProject` lists them: those that are there, sorted. */
export async function workingFiles(
  { root, env }: Repository,
  { paths, uncompared, links }: ReadIndex,
  { present, gone, untracked }: Differences,
  exclude: readonly string[],
): Promise<string[]> {
  const missing = new Set(gone.map((name) => bytesOf(name).toString('utf8')))
  const isReal = realDirectories(root)
  const isThere = (path: string): boolean =>
    isReal(dirname(path)) && look(join(root, path))?.isDirectory() === false
  const files: string[] = []
  for (const path of paths) {
    if (missing.has(path) || isOutside(path)) continue
    // Git has looked at the others: it does not look behind a directory that has become a link.
    if (!uncompared.has(path) || isThere(path)) files.push(path)
  }
  for (const name of present) if (untracked.has(name)) files.push(bytesOf(name).toString('utf8'))
  for (const { path } of links) files.push(...(await filesOfLink(root, path.toString('utf8'), env)))
  const out = exclude
    .map((path) => relative(root, resolve(path)))
    .filter((path) => path !== '' && !path.startsWith('../'))
  const isOut = (path: string): boolean => out.some((one) => path === one || path.startsWith(`${one}/`))
  const found = files.filter((path) => isText(root, path) && !isOut(path))
  checkFileCount(found.length)
  return found.sort()
}

/** A submodule lists its own files. It may be a link or a file by now. */
async function filesOfLink(root: string, path: string, env: Repository['env']): Promise<string[]> {
  const info = look(join(root, path))
  if (info?.isDirectory()) return listInside(root, path, env)
  return info ? [path] : []
}

/** SECURITY: an index may name paths outside (GT-02). */
function isOutside(path: string): boolean {
  return path.startsWith('/') || (path.includes('..') && path.split('/').includes('..'))
}
