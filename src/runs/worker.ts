/** One run at work. Its state says what is to be done next, so that any server can take it up from there. */
import type { Agent } from '../agents/agent.ts'
import type { Driver, Step, TurnEnd } from '../agents/driver.ts'
import { asAgentPodError, isAgentPodError } from '../core/error.ts'
import type { Run, RunEventBody, RunLimits } from '../core/run.ts'
import type { Live } from '../engine/context.ts'
import { conversationState, followConversation, startConversation } from '../guest/conversation.ts'
import { signalInside } from '../guest/process.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { LineReader } from '../util/line-reader.ts'
import { spoken } from '../util/spoken.ts'
import { Accounts } from './accounts.ts'
import { AgentInput } from './agent-input.ts'
import { NetworkWatch } from './network-watch.ts'
import { outcomeOf } from './outcome.ts'
import type { RunsParts } from './parts.ts'
import type { RunPlan } from './plan.ts'
import { isOfWayOut, type OpenQuestion, type Progress, type Wish } from './progress.ts'
import { RunRecord } from './record.ts'
import { takeResult } from './result.ts'
import { assignmentOf, enterStage, furnish, liveOf } from './stage.ts'
import { type Taking, take, takingFrom } from './taking.ts'
import { isFlood } from './transcript.ts'
import type { ModelUse } from './usage.ts'

/** How long an agent that was told to stop has before it is ended. */
const GRACE_MS = 5000
/** From being asked to end to being made to. */
const LAST_MS = 2000
const LONGEST_LINE = 8 * 1024 * 1024
const LONGEST_COMPLAINT = 4096
/** SECURITY: CP-16. Of one turn: every question is answered, and what is answered is kept until the turn is over. */
const MOST_ANSWERED = 16 * 1024 * 1024

const NOT_DONE: RunEventBody = { type: 'note', text: 'What it was told meanwhile is not done.' }
const FLOODED: TurnEnd = { how: 'failed', message: 'it asks more than anybody could answer' }
const SANDBOX_ENDED: TurnEnd = { how: 'failed', message: 'its sandbox ended while it was at work' }

export class Worker {
  readonly #parts: RunsParts
  readonly #agent: Agent
  readonly #driver: Driver
  readonly #plan: RunPlan
  readonly #record: RunRecord
  readonly #accounts: Accounts
  readonly #network: NetworkWatch
  #input: AgentInput | undefined
  /** Aborts when this server has no more to do with it; the run itself goes on. */
  readonly #left = new AbortController()
  /** Cancels of timers of this turn. */
  #timers: (() => void)[] = []
  /** Of the question that is the next to be out of time. */
  #cancelQuestion = (): void => undefined

  constructor(o: {
    readonly parts: RunsParts
    readonly agent: Agent
    readonly plan: RunPlan
    readonly run: Run
    readonly progress: Progress
    onNews(id: string): void
  }) {
    this.#parts = o.parts
    this.#agent = o.agent
    this.#driver = o.agent.driver
    this.#plan = o.plan
    this.#record = new RunRecord(o.parts, o)
    const clock = {
      now: () => o.parts.clock.now(),
      after: (ms: number, work: () => void) => this.#later(ms, work),
    }
    this.#accounts = new Accounts(this.#record, clock, (wish) => this.stop(wish))
    this.#network = new NetworkWatch(o.parts, {
      record: this.#record,
      asker: o.plan.asker,
      chatter: o.agent.chatter,
      onQuestion: () => this.#watchQuestions(),
    })
  }

  get run(): Run {
    return this.#record.run
  }

  get plan(): RunPlan {
    return this.#plan
  }

  get progress(): Progress {
    return this.#record.progress
  }

  get #run(): Run {
    return this.#record.run
  }

  get #progress(): Progress {
    return this.#record.progress
  }

  /** What the way out has seen it use. */
  use(use: ModelUse): void {
    this.#safely(() => this.#accounts.use(use))
  }

  /** Until the run has ended, or this server leaves it to the next. Never throws. */
  async work(): Promise<void> {
    while (this.#run.state !== 'ended' && !this.#left.signal.aborted) {
      try {
        await this.#next()
      } catch (error) {
        if (this.#left.signal.aborted) return
        await this.#fail(error)
      } finally {
        this.#clearTimers()
      }
    }
  }

  /** Lets go of it. What is at work inside works on. */
  leave(): void {
    this.#left.abort()
    this.#clearTimers()
    this.#accounts.leave()
  }

  async #next(): Promise<void> {
    switch (this.#run.state) {
      case 'queued':
      case 'starting':
        return this.#begin()
      case 'working':
      case 'waiting':
        return this.#follow()
      case 'finishing':
        return this.#finish()
      case 'ended':
        return
    }
  }

  get #tag(): string {
    return `run-${this.#run.id}-${this.#progress.turn}`
  }

  async #begin(): Promise<void> {
    const { engine } = this.#parts
    if (this.#run.state === 'queued') this.#record.move('starting')
    if (this.#progress.wish) return this.#record.move('finishing')
    const sandbox = await enterStage(engine, this.#run, this.#plan)
    if (this.#run.sandboxId !== sandbox.id) this.#record.save({ sandboxId: sandbox.id })
    if (this.#left.signal.aborted) return
    failpoint('run.staged')
    // One that was made from a snapshot holds the project already, and has begun.
    if (this.#progress.turn === 1 && this.#plan.snapshot === undefined) await engine.begin(sandbox.id)
    const live = liveOf(engine, sandbox.id)
    const isStarted = await conversationState(live.guest, this.#tag, this.#left.signal)
    const { user } = sandbox.spec.environment
    const assignment = assignmentOf(
      this.#agent,
      this.#run,
      this.#plan,
      user,
      this.#progress.prompt,
      this.#asks,
    )
    if (this.#progress.driver === undefined) {
      const deadlineAt = this.#parts.clock.now() + this.#run.limits.timeMs
      this.#record.advance({ deadlineAt, offset: 0 })
      this.#absorb(this.#driver.begin(assignment), [
        {
          type: 'message',
          from: 'user',
          message: `prompt-${this.#progress.turn}`,
          text: this.#progress.prompt,
        },
      ])
    }
    failpoint('run.begun')
    if (isStarted.kind === 'unknown') {
      const launch = this.#agent.launch(assignment)
      await furnish(live, sandbox, this.#plan, launch)
      await startConversation(
        live.guest,
        {
          command: launch.command,
          user,
          workdir: assignment.workspace,
          variables: launch.variables,
          tag: this.#tag,
          stdin: this.#driver.talks,
        },
        this.#left.signal,
      )
    }
    failpoint('run.started')
    this.#record.move(this.#blocking.length > 0 ? 'waiting' : 'working')
  }

  /** Whether something has to be asked for; where nothing has, the agent is told that it may do everything. */
  get #asks(): boolean {
    const { bash, write, mcp } = this.#run.permissions
    return [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
  }

  async #follow(): Promise<void> {
    const live = this.#liveOrGone()
    if (!live) {
      this.#record.move('finishing')
      return
    }
    this.#watchTime()
    this.#watchQuestions()
    const over = new AbortController()
    const signal = AbortSignal.any([this.#left.signal, live.ended.signal, over.signal])
    if (this.#run.sandboxId !== undefined) void this.#network.follow(this.#run.sandboxId, signal)
    this.#input = this.#newInput()
    this.#send(live)
    if (this.#progress.wish) this.#stopAgent(live)
    let lines = new LineReader(LONGEST_LINE, this.#progress.offset)
    try {
      const events = followConversation(live.guest, this.#tag, { offset: this.#progress.offset, signal })
      for await (const event of events) {
        if (event.kind === 'stdout') this.#read(live, lines, event.data)
        else if (event.kind === 'stderr') this.#complain(event.data)
        else if (event.kind === 'gap') {
          lines = new LineReader(LONGEST_LINE, event.offset)
          this.#record.tell([
            { type: 'note', text: `${event.bytes} bytes of what the agent wrote are lost.` },
          ])
        } else this.#exited(event.exit.exitCode)
        if (this.#progress.end) break
      }
    } catch (error) {
      if (this.#left.signal.aborted) return
      // A sandbox that ends takes the agent with it; what it left is still looked at.
      if (!live.ended.signal.aborted) throw error
      this.#record.advance({ end: SANDBOX_ENDED })
    } finally {
      over.abort()
    }
    await this.#endProcess(live)
    this.#record.move('finishing')
  }

  /** Where its sandbox was stopped or destroyed, so was the agent; what it left is still looked at. */
  #liveOrGone(): Live | undefined {
    try {
      return liveOf(this.#parts.engine, this.#run.sandboxId)
    } catch (error) {
      if (!isAgentPodError(error)) throw error
      this.#record.advance({ end: SANDBOX_ENDED })
      return undefined
    }
  }

  /** What came together is one entry of the journal: an agent that floods us waits for its turn like others. */
  #read(live: Live, lines: LineReader, data: Buffer): void {
    const taking = takingFrom(this.#progress)
    for (const { line, end } of lines.push(data)) {
      this.#take(taking, this.#driver.line(taking.driver, line))
      taking.offset = end
      if (taking.end) break
    }
    if (taking.offset === this.#progress.offset) return
    const asked = taking.send.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    const answeredBytes = (this.#progress.answeredBytes ?? 0) + asked
    this.#record.remember({ answeredBytes })
    this.#commit(taking)
    const isTooMuch = answeredBytes > MOST_ANSWERED || isFlood(this.#progress.transcriptBytes)
    if (isTooMuch && !this.#progress.end) this.#record.advance({ end: FLOODED })
    this.#send(live)
  }

  #complain(data: Buffer): void {
    const complaint = (this.#progress.complaint + data.toString('utf8')).slice(-LONGEST_COMPLAINT)
    this.#record.remember({ complaint })
  }

  #exited(exitCode: number): void {
    this.#record.advance({ exitCode })
    if (this.#progress.end) return
    this.#absorb(this.#driver.exit(this.#progress.driver, exitCode))
  }

  #take(taking: Taking, step: Step<unknown>): void {
    take(taking, step, {
      driver: this.#driver,
      rules: this.#run.permissions,
      now: this.#parts.clock.now(),
    })
  }

  #commit({ events, send, session, tokens, denials, end, ...patch }: Taking): void {
    if (session !== undefined && session !== this.#run.session) this.#record.save({ session })
    if (denials > 0) this.#record.save({ denials: this.#run.denials + denials })
    this.#record.advance({ ...patch, ...(end && { end }) }, events, send)
    if (tokens) this.#accounts.claim(tokens)
    if (patch.questions.length > 0) this.#watchQuestions()
    this.#showWaiting()
  }

  /** One step as a whole. */
  #absorb(step: Step<unknown>, before: readonly RunEventBody[] = []): void {
    const taking = takingFrom(this.#progress)
    taking.events.push(...before)
    this.#take(taking, step)
    this.#commit(taking)
  }

  /** Questions that the agent waits for; those of the way out keep nobody. */
  get #blocking(): readonly OpenQuestion[] {
    return this.#progress.questions.filter((one) => !isOfWayOut(one))
  }

  #showWaiting(): void {
    const isWaiting = this.#blocking.length > 0
    if (this.#run.state === 'working' && isWaiting) this.#record.move('waiting')
    else if (this.#run.state === 'waiting' && !isWaiting) this.#record.move('working')
  }

  /** Answers a question; undefined where it is none of this run's, or answered. */
  answer(permission: string, answer: 'allow' | 'deny', by: 'user' | 'timeout'): OpenQuestion | undefined {
    const question = this.#progress.questions.find((one) => one.permission === permission)
    if (!question) return undefined
    const questions = this.#progress.questions.filter((one) => one !== question)
    const { about } = question
    const told: RunEventBody = { type: 'permission.answered', permission, about, answer, by }
    if (answer === 'deny') this.#record.save({ denials: this.#run.denials + 1 })
    this.#record.remember({ questions })
    if (isOfWayOut(question)) this.#record.tell([told])
    else {
      this.#absorb(this.#driver.answer(this.#progress.driver, permission, answer), [told])
      this.#trySend()
    }
    return question
  }

  /** Said to it by a person: the next turn's, where one is at work. */
  /** What holds from now on; a turn that has begun keeps its time. */
  limit(limits: RunLimits): void {
    this.#record.save({ limits })
  }

  queue(text: string): void {
    this.#record.advance({ queue: [...this.#progress.queue, text] })
  }

  /** Has it stop, for a reason of somebody else's. What it did until then is kept. */
  stop(wish: Wish): void {
    if (this.#progress.wish || this.#run.state === 'ended') return
    if (this.#run.state === 'finishing') {
      // What it did is being looked at; only what it was to do next is not done.
      if (this.#progress.queue.length > 0) this.#record.advance({ queue: [] }, [NOT_DONE])
      return
    }
    this.#record.advance({ wish, queue: [] }, [{ type: 'note', text: `${wish.reason}; it is told to stop.` }])
    const { sandboxId } = this.#run
    if (sandboxId === undefined || !['working', 'waiting'].includes(this.#run.state)) return
    try {
      this.#stopAgent(liveOf(this.#parts.engine, sandboxId))
    } catch (error) {
      ignore(this.#parts.log, error, 'its sandbox has ended already')
    }
  }

  #stopAgent(live: Live): void {
    this.#absorb(this.#driver.cancel(this.#progress.driver))
    this.#send(live)
    // One that cannot be told has nothing to wait for.
    const grace = this.#driver.talks ? GRACE_MS : 0
    this.#timers.push(this.#parts.clock.after(grace, () => void this.#endProcess(live)))
  }

  async #endProcess({ guest, ended }: Live): Promise<void> {
    const signal = AbortSignal.any([ended.signal, this.#left.signal, AbortSignal.timeout(20_000)])
    try {
      const { kind } = await conversationState(guest, this.#tag, signal)
      if (kind !== 'running') return
      await signalInside(guest, this.#tag, 'SIGTERM', signal)
      await new Promise<void>((resolve) => void this.#parts.clock.after(LAST_MS / 10, resolve))
      for (let tries = 0; tries < 10; tries++) {
        if ((await conversationState(guest, this.#tag, signal)).kind !== 'running') return
        await new Promise<void>((resolve) => void this.#parts.clock.after(LAST_MS / 10, resolve))
      }
      await signalInside(guest, this.#tag, 'SIGKILL', signal)
    } catch (error) {
      ignore(this.#parts.log, error, `the agent of run ${this.#run.id} ends with its sandbox`)
    }
  }

  #newInput(): AgentInput {
    const { journal, log } = this.#parts
    const { id: runId } = this.#run
    const { turn } = this.#progress
    return new AgentInput({ journal, log, runId, turn, tag: this.#tag, signal: this.#left.signal })
  }

  #send(live: Live): void {
    if (this.#driver.talks) this.#input?.send(live)
  }

  #trySend(): void {
    try {
      this.#send(liveOf(this.#parts.engine, this.#run.sandboxId))
    } catch (error) {
      ignore(this.#parts.log, error, 'it is sent when the sandbox runs again')
    }
  }

  #watchTime(): void {
    const { deadlineAt } = this.#progress
    if (deadlineAt === undefined) return
    const left = Math.max(0, deadlineAt - this.#parts.clock.now())
    this.#timers.push(
      this.#later(left, () =>
        this.stop({
          outcome: 'timed_out',
          reason: `its time of ${spoken(this.#run.limits.timeMs)} is over`,
        }),
      ),
    )
  }

  /** A question that nobody answers is answered with no. */
  #watchQuestions(): void {
    this.#cancelQuestion()
    this.#cancelQuestion = () => undefined
    const [first] = [...this.#progress.questions].sort((a, b) => a.askedAt - b.askedAt)
    if (!first || this.#left.signal.aborted) return
    const left = Math.max(0, first.askedAt + this.#run.limits.answerMs - this.#parts.clock.now())
    this.#cancelQuestion = this.#later(left, () => {
      this.answer(first.permission, 'deny', 'timeout')
      this.#watchQuestions()
    })
  }

  #later(ms: number, work: () => void): () => void {
    return this.#parts.clock.after(ms, () => this.#safely(work))
  }

  /** For what nobody waits for. A full disk would end the server with it; so it ends this run's sandbox, and with that the run. */
  #safely(work: () => void): void {
    try {
      work()
    } catch (error) {
      ignore(this.#parts.log, error, `run ${this.#run.id} is not gone on with, as it cannot be written down`)
      void this.#rest()
    }
  }

  async #finish(): Promise<void> {
    // A server was killed when the journal knew of the next turn, and the run did not yet.
    if (this.#progress.turn > this.#run.turn) return this.#record.move('starting')
    const [text, ...rest] = this.#progress.queue
    if (text !== undefined && this.#goesOn) {
      this.#record.turn('starting', text, rest)
      return
    }
    const result = await this.#result()
    failpoint('run.taken')
    const { sandboxId } = this.#run
    if (sandboxId !== undefined) await this.#network.settle(sandboxId)
    this.#accounts.settle()
    const { project } = this.#run
    const { outcome, reason } = outcomeOf({
      ...this.#progress,
      denials: this.#run.denials,
      isChanged: result && project ? result.tree !== project.tree : undefined,
    })
    await this.#rest()
    // Somebody has said more meanwhile: it is not over yet.
    if (this.#progress.queue.length > 0 && this.#goesOn) return
    this.#end(outcome, reason)
  }

  /** Whether what waits is still of use to it. */
  get #goesOn(): boolean {
    return !this.#progress.wish && this.#progress.end?.how !== 'failed'
  }

  async #result(): Promise<Run['result']> {
    const { project, sandboxId } = this.#run
    if (!project || sandboxId === undefined) return undefined
    const { engine, directory } = this.#parts
    try {
      const { state, spec } = engine.get(sandboxId)
      if (state === 'stopped') await engine.start(sandboxId)
      const live = liveOf(engine, sandboxId)
      const result = await takeResult(live, {
        project,
        user: spec.environment.user,
        file: `${directory}/${this.#run.id}/result.pack`,
        signal: AbortSignal.any([this.#left.signal, live.ended.signal]),
      })
      this.#record.save({ result })
      return result
    } catch (error) {
      if (this.#left.signal.aborted) throw error
      const { message } = asAgentPodError(error)
      this.#record.tell([{ type: 'error', text: `The result could not be taken: ${message}` }])
      this.#record.advance({ end: { how: 'failed', message: `the result could not be taken: ${message}` } })
      return undefined
    }
  }

  /** Its files are kept for follow-ups; nothing runs any more. */
  async #rest(): Promise<void> {
    const { sandboxId } = this.#run
    if (sandboxId === undefined) return
    try {
      await this.#parts.engine.stop(sandboxId)
    } catch (error) {
      if (!isAgentPodError(error, 'not_found'))
        ignore(this.#parts.log, error, `the sandbox of run ${this.#run.id} ends at its time`)
    }
  }

  async #fail(error: unknown): Promise<void> {
    const failure = asAgentPodError(error)
    if (failure.code === 'internal')
      this.#parts.log.error('a run failed', { run: this.#run.id, error: failure })
    await this.#rest()
    const { wish } = this.#progress
    try {
      this.#record.tell([
        { type: 'error', text: failure.hint ? `${failure.message} (${failure.hint})` : failure.message },
      ])
      this.#end(wish?.outcome ?? 'failed', wish?.reason ?? failure.message)
    } catch (unwritten) {
      // A full disk: it is as it was, and the next server tries again.
      ignore(this.#parts.log, unwritten, `the failure of run ${this.#run.id} was not recorded`)
      this.leave()
    }
  }

  #end(outcome: NonNullable<Run['outcome']>, reason: string | undefined): void {
    const endedAt = this.#parts.clock.now()
    const keptUntil = this.#run.sandboxId === undefined ? undefined : endedAt + this.#plan.keepMs
    // What was said too late is done by nobody, also not when its result is looked at again.
    if (this.#progress.queue.length > 0) this.#record.advance({ queue: [] }, [NOT_DONE])
    this.#record.save({ outcome, reason, endedAt, keptUntil })
    this.#record.move('ended')
  }

  /** Goes on with a run that has ended. */
  again(text: string): void {
    this.#record.turn('queued', text, [])
  }

  /** Takes the result of a run that has ended anew, after somebody worked in its sandbox. */
  lookAgain(): void {
    this.#record.advance({ wish: undefined, end: { how: 'done', message: undefined } })
    this.#record.save({ outcome: undefined, reason: undefined, endedAt: undefined, keptUntil: undefined })
    this.#record.move('finishing')
  }

  #clearTimers(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers = []
    this.#cancelQuestion()
    this.#cancelQuestion = () => undefined
  }
}
