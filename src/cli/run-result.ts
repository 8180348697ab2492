/** What a run has made, fetched from its server and checked; nothing of it is in the user's repository yet. */
import { createWriteStream, existsSync } from 'node:fs'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Run, RunInfo } from '../client/runs.ts'
import { AgentPodError } from '../core/error.ts'
import { type Received, receive } from '../sync/git/receive.ts'
import type { ObjectId, Repository } from '../sync/git/repository.ts'
import type { CommandContext } from './command.ts'
import { oneLine } from './output/run-lines.ts'
import { projectKey, scratchOf, startObjects } from './project-objects.ts'

export interface OpenResult extends Disposable {
  readonly received: Received
  /** Where objects are that the user's repository does not have. */
  readonly objects: readonly string[]
}

type Project = NonNullable<RunInfo['project']>
type Result = NonNullable<RunInfo['result']>

/** A commit that a result is compared with, instead of what the run began with. */
export interface ResultBase {
  readonly commit: ObjectId
  readonly tree: ObjectId
}

/** Undefined where the run has left nothing that differs from what it began with, or from `base`. */
export async function openResult(
  { home }: Pick<CommandContext, 'home'>,
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
    const received = await receive(repo, {
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

/** SECURITY: a server may say anything about where a run belongs; only the repository itself knows. */
function checkProject(repo: Repository, { id }: RunInfo, project: Project): void {
  if (projectKey(repo) === project.key) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.elsewhere',
    message: `the run ${id} is of another repository than this one`,
    hint: 'go to the directory that it was started in, and try again',
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

/** Why there is no result. */
export function nothingIn({ id, state, outcome, reason }: RunInfo): string {
  if (state !== 'ended') return `${id} has not ended yet`
  const why = reason === null ? '' : `: ${oneLine(reason)}`
  return outcome === 'unchanged'
    ? `${id} changed nothing`
    : `nothing came of ${id}, which ${ENDED[outcome ?? 'failed']}${why}`
}

const ENDED = {
  changed: 'left no result',
  unchanged: 'changed nothing',
  denied: 'was denied what it asked for',
  failed: 'failed',
  timed_out: 'ran out of time',
  over_budget: 'ran out of money',
  canceled: 'was canceled',
} as const
