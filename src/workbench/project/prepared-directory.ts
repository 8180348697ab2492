/**
 * A snapshot of a directory that commands of a devcontainer have prepared, for commands that copy a directory
 * and not a repository: what prepares the project runs once, and not with every command.
 */
import { realpathSync } from 'node:fs'
import { posix } from 'node:path'
import * as z from 'zod'
import type { AgentPod } from '../../client/client.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { contentDigest } from '../../sync/content-digest.ts'
import { packFiles } from '../../sync/tar.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { Workbench } from '../workbench.ts'
import { type CopyEnvironment, keptSnapshot } from './kept-snapshot.ts'
import type { Project } from './open-project.ts'

/** Paths of one call inside: an argument list has a limit. */
const MOST_PATHS = 200
const sentPaths = z.array(z.string())

/** The id of the snapshot. Its files are those of the project now. */
export async function prepareDirectory(
  bench: Workbench,
  pod: AgentPod,
  project: Project,
  on: CopyEnvironment,
): Promise<string> {
  const { directory, files } = project
  return await keptSnapshot(bench, pod, on, {
    // Another key than that of the repository that the directory may be.
    key: sha256Hex(`directory ${realpathSync(directory)}`),
    digest: (await contentDigest(directory, files)).slice(0, 40),
    record: JSON.stringify(files),
    async send(sandbox, last) {
      if (last !== undefined) await removeOld(sandbox, project, readPaths(last))
      await sandbox.unpack(on.workspace, packFiles(directory, files), { user: on.user })
    },
  })
}

/** SECURITY: the record is a file of ours; its paths are only used inside the sandbox. */
function readPaths(record: string): readonly string[] {
  try {
    return sentPaths.parse(JSON.parse(record))
  } catch {
    return []
  }
}

const REMOVE = `cd "$1" || exit 1
shift
rm -f -- "$@"`

/** Directories that become empty stay away, so that a file can have their name. */
const REMOVE_DIRECTORIES = `cd "$1" || exit 1
shift
for path; do rmdir -p -- "$path" 2>/dev/null || true; done`

async function removeOld(
  sandbox: Sandbox,
  { files, user, workspace }: Project,
  old: readonly string[],
): Promise<void> {
  const present = new Set(files)
  const gone = old.filter((path) => !present.has(path))
  const directories = [...new Set(gone.map((path) => posix.dirname(path)))].filter((path) => path !== '.')
  for (const [script, paths] of [
    [REMOVE, gone],
    [REMOVE_DIRECTORIES, directories],
  ] as const)
    for (let at = 0; at < paths.length; at += MOST_PATHS) {
      const some = paths.slice(at, at + MOST_PATHS)
      const child = sandbox.exec('/bin/sh', {
        args: ['-c', script, 'agentpod', workspace, ...some],
        user,
        cwd: '/',
      })
      await child.wait()
    }
}
