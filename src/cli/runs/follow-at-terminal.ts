/** Follows runs at this terminal: their log, their questions, and what Ctrl-C means. */
import type { Run } from '../../client/runs.ts'
import { asAgentPodError } from '../../core/error.ts'
import type { Person } from '../../workbench/ask.ts'
import { followRuns } from '../../workbench/run/follow-runs.ts'
import type { FollowedRun } from '../../workbench/run/followed-run.ts'
import type { CommandContext } from '../command.ts'
import { choice } from '../output/ask.ts'
import { terminalPerson } from '../output/person.ts'
import { RunLog } from '../output/run-log.ts'

export interface TerminalFollowOptions {
  readonly isJson?: boolean | undefined
  /** The last event of each run that was seen already, by its id. */
  readonly after?: ReadonlyMap<string, number> | undefined
  /** What Ctrl-C does: cancel the runs, after a question if someone can answer it; or only stop following. */
  readonly whenInterrupted?: 'cancel' | 'leave' | undefined
}

/** Gives the ended runs in the same order. */
export async function followAtTerminal(
  ctx: CommandContext,
  runs: readonly FollowedRun[],
  o: TerminalFollowOptions = {},
): Promise<readonly Run[]> {
  const { terminal } = ctx
  const isAsking = terminal.isInteractive && !o.isJson
  const infos = runs.map(({ info }) => info)
  const log = new RunLog(terminal, infos, { isJson: o.isJson, isAsking })
  const left = new AbortController()
  const whenInterrupted = o.whenInterrupted ?? 'cancel'
  using interrupts = onInterrupt(ctx, runs, left, { whenInterrupted, isAsking, log })
  // Awaited here: `interrupts` is disposed of when this function returns.
  return await followRuns(runs, {
    after: o.after,
    signal: left.signal,
    onEvent: (run, event) => log.take(run.id, event),
    onEnd: (run) => log.end(run.id),
    person: isAsking ? holdingLog(ctx, log, interrupts.again) : undefined,
  })
}

/** The log waits while a question is on the screen. */
function holdingLog({ home, terminal }: CommandContext, log: RunLog, onInterrupt: () => void): Person {
  const person = terminalPerson({ home, terminal, onInterrupt })
  return {
    ...person,
    async question(...words) {
      log.hold()
      try {
        return await person.question(...words)
      } finally {
        log.release()
      }
    },
  }
}

interface Interrupts {
  readonly whenInterrupted: 'cancel' | 'leave'
  /** Whether someone can answer a question. */
  readonly isAsking: boolean
  readonly log: RunLog
}

/** Each message says what Ctrl-C has done or will do. */
function onInterrupt(
  { terminal }: CommandContext,
  runs: readonly FollowedRun[],
  left: AbortController,
  { whenInterrupted: meaning, isAsking, log }: Interrupts,
): Disposable & { again(): void } {
  let [isAsked, isCanceled] = [false, false]
  const detach = (): void => {
    terminal.say(
      'stopped watching; the runs continue. `agentpod follow` watches them again, `agentpod cancel` ends them',
    )
    left.abort()
  }
  const cancel = (): void => {
    isCanceled = true
    terminal.say('canceling; press Ctrl-C again to leave without waiting for the end')
    for (const run of runs)
      run.cancel().catch((error) => {
        if (!left.signal.aborted)
          terminal.say(`${run.id} was not canceled: ${asAgentPodError(error).message}`)
      })
  }
  const ask = async (): Promise<void> => {
    isAsked = true
    log.hold()
    const answer = await choice(terminal, '[c]ancel the run, [d]etach and let it work, or c[o]ntinue? ', [
      'c',
      'd',
      'o',
    ])
    log.release()
    isAsked = false
    // Ctrl-C at the question cancels.
    if (answer === 'd') detach()
    else if (answer !== 'o') cancel()
  }
  const again = (): void => {
    if (isCanceled) {
      terminal.say('the cancel was sent; not waiting for the end')
      left.abort()
    } else if (meaning === 'leave') detach()
    else if (isAsking && !isAsked) void ask()
    else if (!isAsked) cancel()
  }
  process.on('SIGINT', again)
  return { again, [Symbol.dispose]: () => void process.off('SIGINT', again) }
}
