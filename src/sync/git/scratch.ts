/**
 * A git directory of ours beside the user's: its own configuration, index and objects, with the user's objects to read. Git works in
 * the user's working tree through it, so that nothing is written into the user's repository and nothing in its configuration is heard.
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
import type { GitOptions } from './git.ts'
import { objectsOf, type Repository } from './repository.ts'
import type { UserSettings } from './user-settings.ts'

/** Makes one in a directory that does not exist yet. */
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

/** How git is run in it. SECURITY: no configuration but ours is read, so there is no program that git could run (GT-01 to GT-05). */
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

/** The user's index as it is now; a scratch without one where there is none. */
export function copyIndex(repo: Repository, gitDir: string): void {
  copy(join(repo.gitDir, 'index'), join(gitDir, 'index'))
  // A split index is in two files.
  for (const name of readdirSync(repo.gitDir))
    if (name.startsWith('sharedindex.')) copy(join(repo.gitDir, name), join(gitDir, name))
}

/**
 * INVARIANT: a copy is never younger than the original. Git takes an entry whose file is as young as the index for possibly changed, and would
 * overlook changes if the copy were younger. Node counts time in doubles, so the copy is made older by more than their error.
 */
function copy(from: string, to: string): void {
  const file = openIfThere(from)
  if (file === undefined) return
  try {
    const info = fstatSync(file)
    // SECURITY: a hostile repository may have a device here, which never ends.
    if (!info.isFile()) return
    writeFileSync(to, readFileSync(file))
    utimesSync(to, info.mtimeMs / 1000, info.mtimeMs / 1000 - 2e-6)
  } finally {
    closeSync(file)
  }
}

/** Without waiting for a writer, should it be a pipe. */
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
    // What is written here lives as long as the command.
    looseCompression: '0',
    fsync: 'none',
    ...Object.fromEntries(core),
  }
  const lines = Object.entries(ours).map(([name, value]) => `\t${name} = ${quoted(value)}`)
  return `[core]\n${lines.join('\n')}\n[index]\n\tsparse = false\n[gc]\n\tauto = 0\n`
}

/** As in C, which is how both git's configuration and its list of alternates are written. */
function quoted(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`
}
