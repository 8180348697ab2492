/**
 * A git directory of ours beside the user's, with its own configuration, index and objects. It can read the
 * user's objects. Git uses it to read the user's working tree, so that nothing is written into the user's
 * repository and nothing in its configuration has an effect.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { GitOptions } from '../plumbing/git.ts'
import { objectsOf, type Repository } from '../plumbing/repository.ts'
import type { UserSettings } from './user-settings.ts'

/** Creates one in a directory that does not exist yet. */
export function makeScratch(repo: Repository, gitDir: string, settings: UserSettings): void {
  for (const name of ['objects/info', 'refs', 'info']) mkdirSync(join(gitDir, name), { recursive: true })
  writeFileSync(join(gitDir, 'HEAD'), 'ref: refs/heads/none\n')
  writeFileSync(join(gitDir, 'config'), configuration(settings))
  writeFileSync(join(gitDir, 'objects/info/alternates'), `${quoted(objectsOf(repo))}\n`)
  for (const name of ['exclude', 'attributes'])
    copy(join(repo.commonDir, 'info', name), join(gitDir, 'info', name))
  copy(join(repo.gitDir, 'info/sparse-checkout'), join(gitDir, 'info/sparse-checkout'))
  copy(join(repo.commonDir, 'shallow'), join(gitDir, 'shallow'))
}

/**
 * Options to run git in it. SECURITY: only our configuration is read, so it names no program to run (GT-01 to
 * GT-05).
 */
export function scratchOptions(repo: Repository, gitDir: string, workTree: string = repo.root): GitOptions {
  return {
    cwd: workTree,
    env: repo.env,
    variables: {
      GIT_DIR: gitDir,
      GIT_WORK_TREE: workTree,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_NO_REPLACE_OBJECTS: '1',
    },
  }
}

/** Copies the user's current index, if there is one, and returns its bytes. */
export function copyIndex(repo: Repository, gitDir: string): Buffer | undefined {
  const index = copy(join(repo.gitDir, 'index'), join(gitDir, 'index'))
  // A split index has a second file.
  for (const name of readdirSync(repo.gitDir))
    if (name.startsWith('sharedindex.')) copy(join(repo.gitDir, name), join(gitDir, name))
  return index
}

/**
 * INVARIANT: a copy is never newer than the original. Git rereads a file that is as new as the index, and
 * would miss changes if the copy were newer. Node stores times as doubles, so the copy is made older by more
 * than their rounding error.
 */
function copy(from: string, to: string): Buffer | undefined {
  const file = openIfThere(from)
  if (file === undefined) return undefined
  try {
    const info = fstatSync(file)
    // SECURITY: a hostile repository may have a device here, which has no end.
    if (!info.isFile()) return undefined
    const data = readFileSync(file)
    writeFileSync(to, data)
    utimesSync(to, info.mtimeMs / 1000, info.mtimeMs / 1000 - 2e-6)
    return data
  } finally {
    closeSync(file)
  }
}

/** Does not wait for a writer if it is a pipe. */
function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function configuration({ core }: UserSettings): string {
  const ours = {
    repositoryFormatVersion: '0',
    bare: 'false',
    logAllRefUpdates: 'false',
    // These objects exist only as long as the command.
    looseCompression: '0',
    fsync: 'none',
    ...Object.fromEntries(core),
  }
  const lines = Object.entries(ours).map(([name, value]) => `\t${name} = ${quoted(value)}`)
  return `[core]\n${lines.join('\n')}\n[index]\n\tsparse = false\n[gc]\n\tauto = 0\n`
}

/** Quotes as in C, for git's configuration and its list of alternates. */
function quoted(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`
}
