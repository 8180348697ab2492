/** Works on one run. The state of the run says what to do next, so any server can continue it. */

import type { Agent } from '../agents/agent.ts'
import type { Driver, DriverStep, TurnEnd } from '../agents/drivers/driver.ts'
import { asAgentPodError, isAgentPodError } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'
import type { Run, RunEventBody, RunLimits } from '../core/run.ts'
import type { GuestConnection } from '../engine/context.ts'
import { conversationState, followConversation, startConversation } from '../guest/conversation.ts'
import { signalInside } from '../guest/run-command.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { formatDuration } from '../util/format-duration.ts'
import { LineReader } from '../util/stream/line-reader.ts'
import { AgentInput } from './agent-input.ts'
import { foldStep, newBatch, type StepBatch } from './fold-steps.ts'
import { NetworkWatch } from './network-watch.ts'
import { runOutcome } from './outcome.ts'
import type { RunsParts } from './parts.ts'
import type { RunPlan } from './plan.ts'
import { isNetworkQuestion, type OpenQuestion, type Progress, type StopRequest } from './progress.ts'
import { RunRecord } from './record.ts'
import { takeRunResult } from './result.ts'
import { assignmentOf, openRunSandbox, runConnection, writeAgentFiles } from './run-sandbox.ts'
import { Spending } from './spending.ts'
import { isFlood } from './transcript.ts'
import type { ModelUse } from './usage.ts'

/** How long an agent that was told to stop has before its process is ended. */
const GRACE_MS = 5000
/** From SIGTERM to SIGKILL. */
const LAST_MS = 2000
const LONGEST_LINE = 8 * 1024 * 1024
const LONGEST_COMPLAINT = 4096
/** SECURITY: CP-16. Per turn: every question is answered, and answers are kept until the turn is over. */
const MOST_ANSWERED = 16 * 1024 * 1024

const NOT_DONE: RunEventBody = { type: 'note', text: 'Messages sent meanwhile are dropped.' }
const FLOODED: TurnEnd = { how: 'failed', message: 'it asked too many questions' }
const SANDBOX_ENDED: TurnEnd = { how: 'failed', message: 'its sandbox ended while it was working' }

export class Worker {
  readonly #parts: RunsParts
  readonly #agent: Agent
  readonly #driver: Driver
  readonly #plan: RunPlan
  readonly #record: RunRecord
  readonly #spending: Spending
  readonly #network: NetworkWatch
  #input: AgentInput | undefined
  /** Aborts when this server stops following; the run itself continues. */
  readonly #left = new AbortController()
  /** Cancel functions of the timers of this turn. */
  #timers: (() => void)[] = []
  /** Cancels the timer of the question that times out next. */
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
    this.#spending = new Spending(this.#record, clock, (wish) => this.stop(wish))
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

  /** Called for each model answer that the egress process has seen. */
  use(use: ModelUse): void {
    this.#safely(() => this.#spending.use(use))
  }

  /** Works until the run has ended, or this server stops following. Never throws. */
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

  /** Stops following. The agent inside continues. */
  leave(): void {
    this.#left.abort()
    this.#clearTimers()
    this.#spending.leave()
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
    const sandbox = await openRunSandbox(engine, this.#run, this.#plan)
    if (this.#run.sandboxId !== sandbox.id) this.#record.save({ sandboxId: sandbox.id })
    if (this.#left.signal.aborted) return
    failpoint('run.staged')
    // A sandbox made from a snapshot already has the project, and its services have started.
    if (this.#progress.turn === 1 && this.#plan.snapshot === undefined)
      await engine.guests.startProjectServices(sandbox.id, LOCAL)
    const connection = runConnection(engine, sandbox.id)
    const isStarted = await conversationState(connection.guest, this.#tag, this.#left.signal)
    const { user } = sandbox.spec.environment
    const assignment = assignmentOf({
      agent: this.#agent,
      run: this.#run,
      plan: this.#plan,
      user,
      prompt: this.#progress.prompt,
      asks: this.#asks,
    })
    if (this.#progress.driver === undefined) {
      const deadlineAt = this.#parts.clock.now() + this.#run.limits.timeMs
      this.#record.advance({ deadlineAt, offset: 0 })
      this.#foldAndStore(this.#driver.begin(assignment), [
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
      await writeAgentFiles(connection, sandbox, this.#plan, launch)
      await startConversation(
        connection.guest,
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

  /** Whether the agent must ask for anything; if not, it is started with full permissions. */
  get #asks(): boolean {
    const { bash, write, mcp } = this.#run.permissions
    return [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
  }

  async #follow(): Promise<void> {
    const connection = this.#connectionIfAny()
    if (!connection) {
      this.#record.move('finishing')
      return
    }
    this.#watchTime()
    this.#watchQuestions()
    const over = new AbortController()
    const signal = AbortSignal.any([this.#left.signal, connection.ended.signal, over.signal])
    if (this.#run.sandboxId !== undefined) void this.#network.follow(this.#run.sandboxId, signal)
    this.#input = this.#newInput()
    this.#send(connection)
    if (this.#progress.wish) this.#stopAgent(connection)
    let lines = new LineReader(LONGEST_LINE, this.#progress.offset)
    try {
      const events = followConversation(connection.guest, this.#tag, {
        offset: this.#progress.offset,
        signal,
      })
      for await (const event of events) {
        if (event.kind === 'stdout') this.#read(connection, lines, event.data)
        else if (event.kind === 'stderr') this.#addToStderr(event.data)
        else if (event.kind === 'gap') {
          lines = new LineReader(LONGEST_LINE, event.offset)
          this.#record.report([
            { type: 'note', text: `${event.bytes} bytes of the agent's output were lost.` },
          ])
        } else this.#exited(event.exit.exitCode)
        if (this.#progress.end) break
      }
    } catch (error) {
      if (this.#left.signal.aborted) return
      // The agent ends with its sandbox; its result is still taken.
      if (!connection.ended.signal.aborted) throw error
      this.#record.advance({ end: SANDBOX_ENDED })
    } finally {
      over.abort()
    }
    await this.#endProcess(connection)
    this.#record.move('finishing')
  }

  /** If the sandbox was stopped or destroyed, so was the agent; its result is still taken. */
  #connectionIfAny(): GuestConnection | undefined {
    try {
      return runConnection(this.#parts.engine, this.#run.sandboxId)
    } catch (error) {
      if (!isAgentPodError(error)) throw error
      this.#record.advance({ end: SANDBOX_ENDED })
      return undefined
    }
  }

  /**
   * Lines that arrive together become one entry of the journal, so an agent that floods us waits like the
   * others.
   */
  #read(connection: GuestConnection, lines: LineReader, data: Buffer): void {
    const batch = newBatch(this.#progress)
    for (const { line, end } of lines.push(data)) {
      this.#fold(batch, this.#driver.line(batch.driver, line))
      batch.offset = end
      if (batch.end) break
    }
    if (batch.offset === this.#progress.offset) return
    const asked = batch.send.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    const answeredBytes = (this.#progress.answeredBytes ?? 0) + asked
    this.#record.remember({ answeredBytes })
    this.#commit(batch)
    const isTooMuch = answeredBytes > MOST_ANSWERED || isFlood(this.#progress.transcriptBytes)
    if (isTooMuch && !this.#progress.end) this.#record.advance({ end: FLOODED })
    this.#send(connection)
  }

  #addToStderr(data: Buffer): void {
    const complaint = (this.#progress.complaint + data.toString('utf8')).slice(-LONGEST_COMPLAINT)
    this.#record.remember({ complaint })
  }

  #exited(exitCode: number): void {
    this.#record.advance({ exitCode })
    if (this.#progress.end) return
    this.#foldAndStore(this.#driver.exit(this.#progress.driver, exitCode))
  }

  #fold(batch: StepBatch, step: DriverStep<unknown>): void {
    foldStep(batch, step, {
      driver: this.#driver,
      rules: this.#run.permissions,
      now: this.#parts.clock.now(),
    })
  }

  #commit({ events, send, session, tokens, denials, end, ...patch }: StepBatch): void {
    if (session !== undefined && session !== this.#run.session) this.#record.save({ session })
    if (denials > 0) this.#record.save({ denials: this.#run.denials + denials })
    this.#record.advance({ ...patch, ...(end && { end }) }, events, send)
    if (tokens) this.#spending.claim(tokens)
    if (patch.questions.length > 0) this.#watchQuestions()
    this.#showWaiting()
  }

  /** Folds and stores one step. */
  #foldAndStore(step: DriverStep<unknown>, before: readonly RunEventBody[] = []): void {
    const batch = newBatch(this.#progress)
    batch.events.push(...before)
    this.#fold(batch, step)
    this.#commit(batch)
  }

  /** Questions that the agent waits for. It does not wait for questions about the network. */
  get #blocking(): readonly OpenQuestion[] {
    return this.#progress.questions.filter((one) => !isNetworkQuestion(one))
  }

  #showWaiting(): void {
    const isWaiting = this.#blocking.length > 0
    if (this.#run.state === 'working' && isWaiting) this.#record.move('waiting')
    else if (this.#run.state === 'waiting' && !isWaiting) this.#record.move('working')
  }

  /** Answers a question. Undefined if it is not open. */
  answer(permission: string, answer: 'allow' | 'deny', by: 'user' | 'timeout'): OpenQuestion | undefined {
    const question = this.#progress.questions.find((one) => one.permission === permission)
    if (!question) return undefined
    const questions = this.#progress.questions.filter((one) => one !== question)
    const { about } = question
    const told: RunEventBody = { type: 'permission.answered', permission, about, answer, by }
    if (answer === 'deny') this.#record.save({ denials: this.#run.denials + 1 })
    this.#record.remember({ questions })
    if (isNetworkQuestion(question)) this.#record.report([told])
    else {
      this.#foldAndStore(this.#driver.answer(this.#progress.driver, permission, answer), [told])
      this.#trySend()
    }
    return question
  }

  /** Sets new limits. A turn that has started keeps its deadline. */
  limit(limits: RunLimits): void {
    this.#record.save({ limits })
  }

  /** Adds a message of a person for the next turn. */
  queue(text: string): void {
    this.#record.advance({ queue: [...this.#progress.queue, text] })
  }

  /** Stops the run for a reason from outside. What it did so far is kept. */
  stop(wish: StopRequest): void {
    if (this.#progress.wish || this.#run.state === 'ended') return
    if (this.#run.state === 'finishing') {
      // Its result is being taken; only its queued messages are dropped.
      if (this.#progress.queue.length > 0) this.#record.advance({ queue: [] }, [NOT_DONE])
      return
    }
    this.#record.advance({ wish, queue: [] }, [{ type: 'note', text: `Stopping: ${wish.reason}.` }])
    const { sandboxId } = this.#run
    if (sandboxId === undefined || !['working', 'waiting'].includes(this.#run.state)) return
    try {
      this.#stopAgent(runConnection(this.#parts.engine, sandboxId))
    } catch (error) {
      ignore(this.#parts.log, error, 'its sandbox has already ended')
    }
  }

  #stopAgent(connection: GuestConnection): void {
    this.#foldAndStore(this.#driver.cancel(this.#progress.driver))
    this.#send(connection)
    // An agent that takes no input cannot be told, so there is nothing to wait for.
    const grace = this.#driver.talks ? GRACE_MS : 0
    this.#timers.push(this.#parts.clock.after(grace, () => void this.#endProcess(connection)))
  }

  async #endProcess({ guest, ended }: GuestConnection): Promise<void> {
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

  #send(connection: GuestConnection): void {
    if (this.#driver.talks) this.#input?.send(connection)
  }

  #trySend(): void {
    try {
      this.#send(runConnection(this.#parts.engine, this.#run.sandboxId))
    } catch (error) {
      ignore(this.#parts.log, error, 'the input is sent when the sandbox runs again')
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
          reason: `its time limit of ${formatDuration(this.#run.limits.timeMs)} is over`,
        }),
      ),
    )
  }

  /** A question without an answer is denied when its time is over. */
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

  /**
   * For callbacks. A failure there (such as a full disk) would end the server; instead it stops the sandbox,
   * and so the run.
   */
  #safely(work: () => void): void {
    try {
      work()
    } catch (error) {
      ignore(this.#parts.log, error, `run ${this.#run.id} is stopped, because it cannot be stored`)
      void this.#stopSandbox()
    }
  }

  async #finish(): Promise<void> {
    // The server was killed after the journal had the next turn and before the run did.
    if (this.#progress.turn > this.#run.turn) return this.#record.move('starting')
    const [text, ...rest] = this.#progress.queue
    if (text !== undefined && this.#continues) {
      this.#record.turn('starting', text, rest)
      return
    }
    const result = await this.#result()
    failpoint('run.taken')
    const { sandboxId } = this.#run
    if (sandboxId !== undefined) await this.#network.settle(sandboxId)
    this.#spending.settle()
    const { project } = this.#run
    const { outcome, reason } = runOutcome({
      ...this.#progress,
      denials: this.#run.denials,
      isChanged: result && project ? result.tree !== project.tree : undefined,
    })
    await this.#stopSandbox()
    // A message arrived meanwhile, so the run is not over.
    if (this.#progress.queue.length > 0 && this.#continues) return
    this.#end(outcome, reason)
  }

  /** Whether queued messages still make sense. */
  get #continues(): boolean {
    return !this.#progress.wish && this.#progress.end?.how !== 'failed'
  }

  async #result(): Promise<Run['result']> {
    const { project, sandboxId } = this.#run
    if (!project || sandboxId === undefined) return undefined
    const { engine, directory } = this.#parts
    try {
      const { state, spec } = engine.sandboxes.get(sandboxId, LOCAL)
      if (state === 'stopped') await engine.sandboxes.start(sandboxId, LOCAL)
      const connection = runConnection(engine, sandboxId)
      const result = await takeRunResult(connection, {
        project,
        user: spec.environment.user,
        file: `${directory}/${this.#run.id}/result.pack`,
        signal: AbortSignal.any([this.#left.signal, connection.ended.signal]),
      })
      this.#record.save({ result })
      return result
    } catch (error) {
      if (this.#left.signal.aborted) throw error
      const { message } = asAgentPodError(error)
      this.#record.report([{ type: 'error', text: `The result could not be taken: ${message}` }])
      this.#record.advance({ end: { how: 'failed', message: `the result could not be taken: ${message}` } })
      return undefined
    }
  }

  /** Stops the sandbox. Its files are kept for follow-ups. */
  async #stopSandbox(): Promise<void> {
    const { sandboxId } = this.#run
    if (sandboxId === undefined) return
    try {
      await this.#parts.engine.sandboxes.stop(sandboxId, LOCAL)
    } catch (error) {
      if (!isAgentPodError(error, 'not_found'))
        ignore(this.#parts.log, error, `the sandbox of run ${this.#run.id} stops at its deadline`)
    }
  }

  async #fail(error: unknown): Promise<void> {
    const failure = asAgentPodError(error)
    if (failure.code === 'internal')
      this.#parts.log.error('a run failed', { run: this.#run.id, error: failure })
    await this.#stopSandbox()
    const { wish } = this.#progress
    try {
      this.#record.report([
        { type: 'error', text: failure.hint ? `${failure.message} (${failure.hint})` : failure.message },
      ])
      this.#end(wish?.outcome ?? 'failed', wish?.reason ?? failure.message)
    } catch (unwritten) {
      // On a full disk the run stays as it is, and the next server tries again.
      ignore(this.#parts.log, unwritten, `the failure of run ${this.#run.id} was not recorded`)
      this.leave()
    }
  }

  #end(outcome: NonNullable<Run['outcome']>, reason: string | undefined): void {
    const endedAt = this.#parts.clock.now()
    const keptUntil = this.#run.sandboxId === undefined ? undefined : endedAt + this.#plan.keepMs
    // Messages that came too late are dropped, also if the result is taken again later.
    if (this.#progress.queue.length > 0) this.#record.advance({ queue: [] }, [NOT_DONE])
    this.#record.save({ outcome, reason, endedAt, keptUntil })
    this.#record.move('ended')
  }

  /** Continues an ended run with a new prompt. */
  again(text: string): void {
    this.#record.turn('queued', text, [])
  }

  /** Takes the result of an ended run again, after a person worked in its sandbox. */
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
