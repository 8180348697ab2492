/** Follows runs to their ends, across restarts of the server, and puts the agents' questions to a person. */
import type { RunEventView } from '../../api/schema/run.ts'
import type { Run } from '../../client/runs.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { sleep, systemClock } from '../../util/clock.ts'
import type { Person } from '../ask.ts'
import type { FollowedRun } from './followed-run.ts'
import { PermissionQuestions } from './permission-questions.ts'

export interface FollowRunsOptions {
  /** The sequence number of the last event that was seen, by the id of the run. */
  readonly after?: ReadonlyMap<string, number> | undefined
  /** Stops following. The runs continue. */
  readonly signal?: AbortSignal | undefined
  readonly onEvent?: ((run: FollowedRun, event: RunEventView) => void) | undefined
  readonly onEnd?: ((run: FollowedRun) => void) | undefined
  /** Who answers the agents' questions. Without a person they wait for an answer from elsewhere. */
  readonly person?: Person | undefined
}

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 5000
/** How long a server may be unreachable. */
const LONGEST_OUTAGE_MS = 120_000

/** Gives the ended runs in the same order. Rejects with `canceled` when `signal` aborts. */
export async function followRuns(
  runs: readonly FollowedRun[],
  o: FollowRunsOptions = {},
): Promise<readonly Run[]> {
  const stop = new AbortController()
  const signal = o.signal ? AbortSignal.any([o.signal, stop.signal]) : stop.signal
  const questions = o.person && new PermissionQuestions(o.person)
  try {
    return await Promise.all(runs.map((run) => followOne(run, { ...o, signal, questions })))
  } catch (error) {
    stop.abort()
    throw error
  } finally {
    questions?.close()
  }
}

interface Following extends FollowRunsOptions {
  readonly signal: AbortSignal
  readonly questions: PermissionQuestions | undefined
}

/** A server that restarts continues the run, so following reconnects after the last event. */
async function followOne(run: FollowedRun, o: Following): Promise<Run> {
  const { signal } = o
  let last = o.after?.get(run.id) ?? 0
  let pauseMs = FIRST_PAUSE_MS
  let outageMs = 0
  for (;;) {
    try {
      for await (const event of run.follow({ after: last, signal })) {
        last = event.seq
        ;[pauseMs, outageMs] = [FIRST_PAUSE_MS, 0]
        o.onEvent?.(run, event)
        o.questions?.event(run, event)
      }
      const now = await run.refresh()
      if (now.info.state === 'ended') {
        o.onEnd?.(run)
        return now
      }
    } catch (error) {
      if (signal.aborted) throw stopped(run)
      if (!isUnreachable(error) || outageMs > LONGEST_OUTAGE_MS) throw error
    }
    if (signal.aborted) throw stopped(run)
    await sleep(systemClock, pauseMs, signal).catch(() => undefined)
    outageMs += pauseMs
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}

const UNREACHABLE = new Set(['ECONNRESET', 'ECONNREFUSED', 'ENOENT', 'EPIPE', 'ECONNABORTED', 'ETIMEDOUT'])

function isUnreachable(error: unknown): boolean {
  return (
    isAgentPodError(error, 'unavailable') ||
    UNREACHABLE.has(String((error as { code?: unknown } | null)?.code ?? ''))
  )
}

function stopped(run: FollowedRun): AgentPodError {
  return new AgentPodError({
    code: 'canceled',
    reason: 'run.left',
    message: `stopped watching ${run.id}; it continues`,
    hint: `\`agentpod follow ${run.id}\` watches it again; \`agentpod cancel ${run.id}\` ends it`,
  })
}
