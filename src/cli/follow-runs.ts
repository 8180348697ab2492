/** Runs that are watched side by side to their ends, with their questions put to whoever sits at the terminal. */
import { createInterface } from 'node:readline'
import type { RunEventView } from '../api/schema/run.ts'
import type { Run } from '../client/runs.ts'
import { AgentPodError, asAgentPodError, isAgentPodError } from '../core/error.ts'
import type { PermissionAbout } from '../core/run.ts'
import { sleep, systemClock } from '../util/clock.ts'
import type { CommandContext } from './command.ts'
import { choice } from './output/ask.ts'
import { questionLines } from './output/run-lines.ts'
import { BREATH_MS, labelOf, RunLog } from './output/run-log.ts'

/** As much of a run as it takes. */
export type FollowedRun = Pick<Run, 'id' | 'info' | 'follow' | 'refresh' | 'cancel' | 'answer'>

export interface FollowRunsOptions {
  readonly isJson?: boolean | undefined
  /** The last event of each that was seen already, by its id. */
  readonly after?: ReadonlyMap<string, number> | undefined
  /** What an interrupt means: the end of the runs, after a question where somebody can be asked; or of watching them. */
  readonly whenInterrupted?: 'cancel' | 'leave' | undefined
}

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 5000
/** How long a server may be away before nobody waits any more. */
const PATIENCE_MS = 120_000

/** How each is when it has ended, in the order they were given. An interrupt cancels all of them or leaves them working. */
export async function followRuns(
  ctx: CommandContext,
  runs: readonly FollowedRun[],
  o: FollowRunsOptions = {},
): Promise<readonly Run[]> {
  const { terminal } = ctx
  const isAsking = terminal.isInteractive && !o.isJson
  const log = new RunLog(
    terminal,
    runs.map(({ info }) => info),
    { isJson: o.isJson, isAsking },
  )
  const left = new AbortController()
  const whenInterrupted = o.whenInterrupted ?? 'cancel'
  using interrupts = onInterrupt(ctx, runs, left, { whenInterrupted, isAsking, log })
  const questions = isAsking ? new Questions(ctx, log, interrupts.again) : undefined
  try {
    return await Promise.all(
      runs.map((run) =>
        followOne(run, { after: o.after?.get(run.id) ?? 0, log, questions, left: left.signal }),
      ),
    )
  } catch (error) {
    left.abort()
    throw error
  } finally {
    questions?.close()
  }
}

interface Watch {
  readonly after: number
  readonly log: RunLog
  readonly questions: Questions | undefined
  readonly left: AbortSignal
}

/** A server that goes away comes back, and the run with it: whoever asks again starts it. */
async function followOne(run: FollowedRun, { after, log, questions, left }: Watch): Promise<Run> {
  let last = after
  let pauseMs = FIRST_PAUSE_MS
  let awayMs = 0
  for (;;) {
    try {
      for await (const event of run.follow({ after: last, signal: left })) {
        last = event.seq
        ;[pauseMs, awayMs] = [FIRST_PAUSE_MS, 0]
        log.take(run.id, event)
        questions?.take(run, event)
      }
      const now = await run.refresh()
      if (now.info.state === 'ended') {
        log.end(run.id)
        return now
      }
    } catch (error) {
      if (left.aborted) throw wasLeft(run)
      if (!isAway(error) || awayMs > PATIENCE_MS) throw error
    }
    if (left.aborted) throw wasLeft(run)
    await sleep(systemClock, pauseMs, left).catch(() => undefined)
    awayMs += pauseMs
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}

const AWAY = new Set(['ECONNRESET', 'ECONNREFUSED', 'ENOENT', 'EPIPE', 'ECONNABORTED', 'ETIMEDOUT'])

function isAway(error: unknown): boolean {
  return (
    isAgentPodError(error, 'unavailable') ||
    AWAY.has(String((error as { code?: unknown } | null)?.code ?? ''))
  )
}

function wasLeft(run: FollowedRun): AgentPodError {
  return new AgentPodError({
    code: 'canceled',
    reason: 'run.left',
    message: `${run.id} was not waited for`,
    hint: `\`agentpod follow ${run.id}\` shows how it goes; \`agentpod cancel ${run.id}\` ends it`,
  })
}

/** What an interrupt means is said before it is done, and what is said is what was done. */
function onInterrupt(
  { terminal }: CommandContext,
  runs: readonly FollowedRun[],
  left: AbortController,
  { whenInterrupted: meaning, isAsking, log }: Interrupts,
): Disposable & { again(): void } {
  let [isAsked, isCanceled] = [false, false]
  const detach = (): void => {
    terminal.say(`left working: \`agentpod follow\` shows how it goes, \`agentpod cancel\` ends it`)
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
    const answer = await choice(terminal, '[c]ancel it, [d]etach and leave it working, or go [o]n? ', [
      'c',
      'd',
      'o',
    ])
    log.release()
    isAsked = false
    // Whoever presses Ctrl-C at the question means the end.
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

interface Interrupts {
  readonly whenInterrupted: 'cancel' | 'leave'
  /** Whether somebody can be asked. */
  readonly isAsking: boolean
  readonly log: RunLog
}

interface OpenQuestion {
  readonly run: FollowedRun
  readonly permission: string
  readonly about: PermissionAbout
}

/** Questions of all runs, one at a time. What was answered elsewhere, or too late, is taken off the screen. */
class Questions {
  readonly #ctx: CommandContext
  readonly #log: RunLog
  readonly #onInterrupt: () => void
  readonly #waiting: OpenQuestion[] = []
  /** Answered with `always`. */
  readonly #always = new Set<string>()
  #now: { readonly question: OpenQuestion; readonly over: AbortController } | undefined
  #isClosed = false

  constructor(ctx: CommandContext, log: RunLog, onInterrupt: () => void) {
    this.#ctx = ctx
    this.#log = log
    this.#onInterrupt = onInterrupt
  }

  take(run: FollowedRun, { body }: RunEventView): void {
    if (body.type === 'permission.asked') {
      this.#waiting.push({ run, permission: body.permission, about: body.about })
      void this.#next()
    }
    if (body.type === 'permission.answered') this.#drop(run, (permission) => permission === body.permission)
    if (body.type === 'state' && body.state === 'ended') this.#drop(run, () => true)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.length = 0
    this.#now?.over.abort()
  }

  #drop(run: FollowedRun, isOver: (permission: string) => boolean): void {
    const isIt = (one: OpenQuestion): boolean => one.run.id === run.id && isOver(one.permission)
    for (let at = this.#waiting.findIndex(isIt); at >= 0; at = this.#waiting.findIndex(isIt))
      this.#waiting.splice(at, 1)
    if (this.#now && isIt(this.#now.question)) this.#now.over.abort()
  }

  async #next(): Promise<void> {
    if (this.#now || this.#isClosed) return
    const question = this.#waiting.shift()
    if (!question) return
    const over = new AbortController()
    this.#now = { question, over }
    try {
      // What a rule answers is answered by then.
      await sleep(systemClock, BREATH_MS, over.signal)
      const answer = this.#always.has(keyOf(question)) ? 'always' : await this.#ask(question, over.signal)
      if (answer === 'always') this.#always.add(keyOf(question))
      await question.run.answer(question.permission, answer === 'no' ? 'deny' : 'allow')
    } catch (error) {
      // Somebody else was faster, or the run has ended.
      if (!over.signal.aborted && !isAgentPodError(error, 'not_found'))
        this.#ctx.terminal.say(`the answer did not arrive: ${asAgentPodError(error).message}`)
    } finally {
      this.#now = undefined
    }
    void this.#next()
  }

  async #ask({ run, about }: OpenQuestion, over: AbortSignal): Promise<'yes' | 'no' | 'always'> {
    const { terminal } = this.#ctx
    this.#log.hold()
    const lines = createInterface({ input: terminal.stdin, output: terminal.stderr })
    lines.on('SIGINT', this.#onInterrupt)
    const show = (isWhole: boolean): void => {
      const question = questionLines(about, (terminal.stderr.columns || 80) - 1, isWhole)
      const [first, ...rest] = question.lines
      terminal.say(`${terminal.bold(labelOf(run.info))} wants to ${first}`)
      for (const line of rest) terminal.say(line)
      lines.setPrompt(`allow it? [y]es, [n]o, [a]lways this${question.isCut ? ', [s]how all of it' : ''}: `)
    }
    show(false)
    try {
      return await new Promise((resolve, reject) => {
        over.addEventListener('abort', () => reject(over.reason), { once: true })
        lines.on('line', (line) => {
          const word = line.trim().toLowerCase()
          const meant = MEANT.get(word)
          if (meant) return resolve(meant)
          if (word === 's' || word === 'show') show(true)
          lines.prompt()
        })
        // The end of the input is no answer, and nothing more will come.
        lines.once('close', () => resolve('no'))
        lines.prompt()
      })
    } finally {
      lines.close()
      if (over.aborted) terminal.say('')
      this.#log.release()
    }
  }
}

const MEANT: ReadonlyMap<string, 'yes' | 'no' | 'always'> = new Map([
  ['y', 'yes'],
  ['yes', 'yes'],
  ['n', 'no'],
  ['no', 'no'],
  ['a', 'always'],
  ['always', 'always'],
])

function keyOf({ run, about }: OpenQuestion): string {
  return JSON.stringify([run.info.agent, about.kind, about.subject])
}
