/**
 * A copy of a directory that is in no repository. Its files go in as an archive; git inside finds what
 * changed.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sandbox } from '../../client/sandbox.ts'
import { homeOf } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import { baselineScript, changesScript, parseChanges, type Script } from '../../sync/changes.ts'
import { look } from '../../sync/project-files.ts'
import { packFiles } from '../../sync/tar.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import type { CopyChanges, ProjectCopy } from './project-copy.ts'

/** Below this size git's objects are kept in memory inside, which is faster than any disk. */
const SMALL_BYTES = 64 * 1024 * 1024

/** If `isThere`, the sandbox has the files already. */
export async function copyDirectory(
  bench: Workbench,
  sandbox: Sandbox,
  project: Project,
  isThere: boolean,
): Promise<ProjectCopy> {
  const { directory, files, user, workspace, generated } = project
  using progress = bench.person.progress({})
  progress.status(`copying ${files.length} files`)
  if (!isThere) await sandbox.unpack(workspace, packFiles(directory, files), { user })
  const baseline = sizeOf(project) < SMALL_BYTES ? '/tmp' : homeOf(user)
  const began = await runInside(sandbox, user, baselineScript(baseline, workspace, generated))
  const bringBack = async (): Promise<CopyChanges> => {
    if (began.exitCode !== 0) return { kind: 'unknown' }
    return patchOf(bench, sandbox, user, changesScript(baseline, workspace, generated))
  }
  return { sandbox, workdir: workspace, bringBack }
}

function sizeOf({ directory, files }: Project): number {
  let bytes = 0
  for (const file of files) bytes += look(join(directory, file))?.size ?? 0
  return bytes
}

async function patchOf(
  { home }: Workbench,
  sandbox: Sandbox,
  user: string,
  script: Script,
): Promise<CopyChanges> {
  const result = await runInside(sandbox, user, script)
  if (result.exitCode !== 0) {
    throw new AgentPodError({
      code: 'internal',
      reason: 'changes.failed',
      message: `the changes could not be read: ${showHidden(result.stderr.toString('utf8').slice(0, 300))}`,
    })
  }
  const { changes, patch } = parseChanges(result.stdout)
  if (changes.length === 0) return { kind: 'none' }
  await mkdir(home.patches, { recursive: true, mode: 0o700 })
  const { name, createdAt } = sandbox.info
  const file = join(home.patches, `${name ?? sandbox.id}-${createdAt.replaceAll(/[:.]/g, '')}.patch`)
  await writeFile(file, patch, { mode: 0o600 })
  return { kind: 'patch', changes, file }
}

/** Runs a script of ours inside and keeps its whole output. */
async function runInside(
  sandbox: Sandbox,
  user: string,
  script: Script,
): Promise<{ exitCode: number; stdout: Buffer; stderr: Buffer }> {
  const child = sandbox.exec(script.command, { args: script.args, user, cwd: '/' })
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for await (const { stream, data } of child.output())
    parts[stream === 'stderr' ? 'stderr' : 'stdout'].push(data)
  return {
    exitCode: child.exit.exitCode,
    stdout: Buffer.concat(parts.stdout),
    stderr: Buffer.concat(parts.stderr),
  }
}
