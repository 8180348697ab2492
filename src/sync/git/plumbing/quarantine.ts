/**
 * A repository of ours beside the user's. Results from a sandbox are unpacked and inspected there before any
 * of it reaches the user's repository. It can read the user's objects, but not the user's configuration,
 * attributes, hooks or refs (GT-01 to GT-05).
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type GitOptions, gitText } from './git.ts'
import { objectsOf, type Repository } from './repository.ts'

/** Limit for one allocation of git. A delta that needs more is an attack. */
const LARGEST_ALLOCATION = '600m'

/** Git reads no configuration of this machine. */
const CLEAN = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_ALLOC_LIMIT: LARGEST_ALLOCATION,
} as const

/**
 * Creates the quarantine in `scratch` if needed; the caller removes that directory. Returns options to run
 * git in it.
 */
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
  // If the user's clone is shallow, this repository must be shallow at the same commits.
  const border = join(repo.commonDir, 'shallow')
  if (existsSync(border)) await copyFile(border, join(directory, 'shallow'))
  return o
}

/** Paths in git's quoted form, in which they may contain a colon. */
export function alternates(directories: readonly string[]): string {
  return directories.map((path) => `"${path.replaceAll(/["\\]/g, '\\$&')}"`).join(':')
}

/**
 * Options to run git in the user's repository. Only for commands that run no program of its configuration:
 * plumbing that neither reads nor writes the working tree.
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
