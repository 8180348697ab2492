/** Lists the files of a working copy from its index and what git found to differ. */
import { dirname, join, relative, resolve } from 'node:path'
import { sha256Hex } from '../../../util/sha256.ts'
import { checkFileCount, isText, listInside, look, realDirectories } from '../../project-files.ts'
import { bytesOf } from '../plumbing/byte-names.ts'
import type { Repository } from '../plumbing/repository.ts'
import type { ReadIndex } from './read-index.ts'
import type { Differences } from './working-copy.ts'

/** The files of a working copy, as `listProject` lists them. */
export interface WorkingList {
  /** Of the index. */
  readonly index: string
  /** Two lists of one working copy that have the same key have the same files, if one of them is whole. */
  readonly key: string
  /** Tens of thousands of names take a while, so they are read when they are needed. */
  read(): Promise<ReadList | undefined>
}

export interface ReadList {
  readonly files: readonly string[]
  /** Whether the index and what git found to differ decide the list, and no submodule is in it. */
  readonly isWhole: boolean
}

export function workingList(
  repo: Repository,
  indexed: { readonly digest: string; read(): ReadIndex | undefined },
  differences: Differences,
  exclude: readonly string[],
): WorkingList {
  const { gone, untracked } = differences
  const names = { gone, untracked: [...untracked], exclude }
  return {
    index: indexed.digest,
    key: sha256Hex(`${indexed.digest}${JSON.stringify(names)}`),
    async read() {
      const index = indexed.read()
      if (!index) return undefined
      const files = await workingFiles(repo, index, differences, exclude)
      // Whether a file has a name that is not text is for the file system to say.
      const isText = ![...index.paths, ...files].some((path) => path.includes('\ufffd'))
      return { files, isWhole: isText && index.links.length === 0 && index.uncompared.size === 0 }
    },
  }
}

/** Those that are there, sorted. */
async function workingFiles(
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
