/** Downloads the result of a run and checks it. Nothing of it is in the user's repository yet. */
import { createWriteStream, existsSync } from 'node:fs'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Run, RunInfo } from '../../client/runs.ts'
import { AgentPodError } from '../../core/error.ts'
import type { ObjectId, Repository } from '../../sync/git/plumbing/repository.ts'
import { type Received, receiveResult } from '../../sync/git/result/receive.ts'
import { projectKey, scratchOf, startObjects } from '../project/project-state.ts'
import type { Workbench } from '../workbench.ts'

export interface OpenResult extends Disposable {
  readonly received: Received
  /** Directories with objects that the user's repository does not have. */
  readonly objects: readonly string[]
}

type Project = NonNullable<RunInfo['project']>
type Result = NonNullable<RunInfo['result']>

/** A commit that a result is compared with, instead of the start of the run. */
export interface ResultBase {
  readonly commit: ObjectId
  readonly tree: ObjectId
}

/** Undefined when the result is the same as the start of the run, or as `base`. */
export async function openResult(
  { home }: Pick<Workbench, 'home'>,
  repo: Repository,
  run: Pick<Run, 'info' | 'result'>,
  base?: ResultBase,
): Promise<OpenResult | undefined> {
  const { project, result } = run.info
  if (!project || !result || result.tree === (base?.tree ?? project.tree)) return undefined
  checkProject(repo, run.info, project)
  const scratch = scratchOf(home, project.key)
  const close = (): void => scratch[Symbol.dispose]()
  try {
    const pack = await download(run, result, join(scratch.path, 'result.pack'))
    const start = startObjects(home, project.key, project.tree)
    const alsoObjects = existsSync(start) ? [start] : []
    const received = await receiveResult(repo, {
      tree: base?.tree ?? project.tree,
      commit: base?.commit ?? project.commit ?? undefined,
      expected: result.tree,
      pack,
      scratch: scratch.path,
      alsoObjects,
    })
    const objects = [join(scratch.path, 'quarantine.git/objects'), ...alsoObjects]
    return { received, objects, [Symbol.dispose]: close }
  } catch (error) {
    close()
    throw error
  }
}

/** SECURITY: the server's word about a run's repository is not trusted; the repository's own key decides. */
function checkProject(repo: Repository, { id }: RunInfo, project: Project): void {
  if (projectKey(repo) === project.key) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.elsewhere',
    message: `the run ${id} belongs to another repository`,
    hint: 'change to the directory that it was started in, and try again',
  })
}

async function download(run: Pick<Run, 'result'>, { packBytes }: Result, file: string): Promise<string> {
  let bytes = 0
  const counted = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length
      done(bytes > packBytes ? new Error('the result is larger than the server said') : null, chunk)
    },
  })
  await pipeline(await run.result(), counted, createWriteStream(file, { mode: 0o600 }))
  return file
}
