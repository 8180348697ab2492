/**
 * A repository of ours beside the user's: what came out of a sandbox is put there and looked at before any of it reaches the user's. It sees
 * the user's objects, and nothing of the user's configuration, attributes, hooks or refs (GT-01 to GT-05).
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type GitOptions, gitText } from './git.ts'
import { objectsOf, type Repository } from './repository.ts'

/** No object of a sane result takes more than this in memory; a delta that says so is a trap. */
const LARGEST_ALLOCATION = '600m'

/** What git is to know of the machine where nothing but objects matter. */
const CLEAN = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_ALLOC_LIMIT: LARGEST_ALLOCATION,
} as const

/** Made in `scratch` where it is not there yet; whoever owns the directory removes it. Git with these options works in it. */
export async function openQuarantine(
  repo: Repository,
  scratch: string,
  alsoObjects: readonly string[] = [],
): Promise<GitOptions> {
  const directory = join(scratch, 'quarantine.git')
  const o: GitOptions = {
    cwd: scratch,
    env: repo.env,
    variables: {
      ...CLEAN,
      GIT_DIR: directory,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: alternates([objectsOf(repo), ...alsoObjects]),
    },
    settings: [
      'core.bigFileThreshold=64m',
      'core.attributesFile=/dev/null',
      'pack.threads=1',
      'core.fsync=none',
    ],
  }
  if (existsSync(join(directory, 'HEAD'))) return o
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  await gitText(['init', '--quiet', '--bare', '--template=', '--object-format=sha1', directory], o)
  // Where the user's history ends, this one must not look further.
  const border = join(repo.commonDir, 'shallow')
  if (existsSync(border)) await copyFile(border, join(directory, 'shallow'))
  return o
}

/** Git's own way to write a list of paths that may hold a colon. */
export function alternates(directories: readonly string[]): string {
  return directories.map((path) => `"${path.replaceAll(/["\\]/g, '\\$&')}"`).join(':')
}

/**
 * Git in the user's repository. Only for commands that run none of the programs its configuration may name: plumbing that neither reads nor
 * writes the working tree.
 */
export function userGit(repo: Repository, alsoObjects: readonly string[] = []): GitOptions {
  const also = alsoObjects.length === 0 ? {} : { GIT_ALTERNATE_OBJECT_DIRECTORIES: alternates(alsoObjects) }
  return {
    cwd: repo.root,
    env: repo.env,
    variables: { GIT_NO_REPLACE_OBJECTS: '1', GIT_ATTR_NOSYSTEM: '1', ...also },
    settings: ['core.attributesFile=/dev/null'],
  }
}
