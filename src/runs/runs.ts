/**
 * Runs of agents: started, followed, answered, canceled, continued. The API translates requests into these
 * calls.
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Agent } from '../agents/agent.ts'
import { agentNamed } from '../agents/agents.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import { MOST_LISTED_RUNS, NO_USAGE, type Run, type RunEvent, type RunLimits } from '../core/run.ts'
import { FollowerLimit } from '../engine/follow-events.ts'
import { ignore } from '../telemetry/log.ts'
import { dropUndefined } from '../util/drop-undefined.ts'
import { failpoint } from '../util/failpoint.ts'
import { replaceHidden } from '../util/hidden-characters.ts'
import { Notifier } from '../util/notifier.ts'
import { randomWord } from '../util/random.ts'
import { checkRequest, type NewRun } from './check-request.ts'
import { type FollowRun, followRun } from './follow-run.ts'
import type { RunsParts } from './parts.ts'
import type { RunPlan } from './plan.ts'
import { firstProgress, isNetworkQuestion, type Progress } from './progress.ts'
import {
  assignmentOf,
  destroyUnusedGroup,
  openRunSandbox,
  runConnection,
  writeAgentFiles,
} from './run-sandbox.ts'
import { addUse, type ModelUse } from './usage.ts'
import { Worker } from './worker.ts'

/** Replaces limits of a run. */
export interface NewLimits {
  readonly timeMs?: number | undefined
  readonly costUsd?: number | undefined
}

const SWEEP_EVERY_MS = 60_000
/** Limits per owner: the number of runs, and the size of their results together. */
const MOST_REMEMBERED = 500
const MOST_RESULT_BYTES = 8 * 1024 ** 3
const MOST_UNFINISHED = 64
/** Messages queued for one run. */
const MOST_QUEUED = 32

/** How to open a terminal in the sandbox of a run: as the conversation of the agent, or as a shell. */
export interface TakenOver {
  readonly sandboxId: string
  readonly user: string
  readonly workdir: string
  /** Undefined if the agent has no interactive mode; only a shell is possible then. */
  readonly command: readonly string[] | undefined
  readonly variables: Readonly<Record<string, string>>
}

export class Runs {
  readonly #parts: RunsParts
  readonly #notifier = new Notifier()
  readonly #followers = new FollowerLimit()
  readonly #workers = new Map<string, Worker>()
  readonly #waiting: Worker[] = []
  /** Workers under way, until they have released everything. */
  readonly #underWay = new Map<string, Promise<void>>()
  /** Releases the snapshot that the sandbox of a waiting run will be made from. */
  readonly #heldSnapshots = new Map<string, () => void>()
  #working = 0
  #isClosed = false
  #cancelSweep = (): void => undefined
  #unsubscribe = (): void => undefined

  constructor(parts: RunsParts) {
    this.#parts = parts
  }

  /** Continues the unfinished runs of an earlier server. */
  open(): void {
    this.#unsubscribe = this.#parts.engine.networks.onModelUsage((sandboxId, use) => {
      const worker = [...this.#workers.values()].find(({ run }) => run.sandboxId === sandboxId)
      if (worker) worker.use(use)
      else this.#addPersonUsage(sandboxId, use)
    })
    const { store, journal } = this.#parts
    // A server that was killed between writing the journal and the run has not started it.
    journal.forget((id) => store.get(id) !== undefined)
    for (const run of store.unfinished()) this.#resume(run)
    this.#watch()
  }

  /** Stops following. The agents continue, and the next server follows them. */
  close(): void {
    this.#isClosed = true
    this.#unsubscribe()
    this.#cancelSweep()
    for (const worker of this.#workers.values()) worker.leave()
  }

  get busyCount(): number {
    return this.#workers.size
  }

  /** Resolves when the run is stored. Its events report the rest. */
  async start(request: NewRun, who: Principal): Promise<Run> {
    const agent = agentNamed(request.agent)
    checkRequest(agent, request)
    this.#checkRoom(who)
    const { engine, clock, random, store, journal } = this.#parts
    const snapshot =
      request.snapshot === undefined ? undefined : engine.snapshots.get(request.snapshot, who).id
    if (request.secret !== undefined) engine.secrets.require([request.secret], who)
    const now = clock.now()
    const run: Run = {
      id: `run${randomWord(random, 12)}`,
      owner: who.owner,
      group: request.group,
      agent: agent.name,
      number: this.#numberOf(request, agent, who),
      turn: 1,
      model: request.model,
      prompt: request.prompt,
      state: 'queued',
      outcome: undefined,
      reason: undefined,
      sandboxId: undefined,
      session: undefined,
      project: request.project,
      result: undefined,
      usage: NO_USAGE,
      denials: 0,
      limits: request.limits,
      permissions: request.permissions,
      createdAt: now,
      endedAt: undefined,
      keptUntil: undefined,
    }
    const plan: RunPlan = { ...request, snapshot, asker: who }
    const progress = firstProgress(request.prompt)
    // The journal first: a run without progress could not continue; progress without a run is harmless.
    journal.write(run.id, { at: now, events: [{ type: 'state', state: 'queued' }], progress })
    store.insert(run, plan)
    failpoint('run.intended')
    this.#register(new Worker({ parts: this.#parts, agent, plan, run, progress, onNews: this.#notify }))
    return run
  }

  /** Runs of one agent on one project are numbered. The requested number is the lowest possible one. */
  #numberOf({ project, number }: NewRun, agent: Agent, { owner }: Principal): number {
    if (!project) return number
    const others = this.#parts.store
      .list({ owner, project: project.key, limit: Number.MAX_SAFE_INTEGER })
      .filter((run) => run.agent === agent.name)
    return Math.max(number, ...others.map((run) => run.number + 1))
  }

  get(ref: string, who: Principal): Run {
    const run = this.#workers.get(ref)?.run ?? this.#parts.store.get(ref)
    if (run && (who.isAdmin || run.owner === who.owner)) return run
    throw new AgentPodError({
      code: 'not_found',
      reason: 'run.unknown',
      message: `there is no run ${replaceHidden(ref.slice(0, 64))}`,
      hint: '`agentpod runs` lists them',
    })
  }

  /** Newest first. */
  list(
    o: { readonly project?: string | undefined; readonly group?: string | undefined },
    who: Principal,
  ): Run[] {
    return this.#parts.store
      .list({ ...o, owner: who.isAdmin ? undefined : who.owner, limit: MOST_LISTED_RUNS })
      .map((run) => this.#workers.get(run.id)?.run ?? run)
  }

  /** Oldest first, at most 1,000. */
  events(ref: string, after: number, who: Principal): RunEvent[] {
    return this.#parts.journal.events(this.get(ref, who).id, { after, limit: 1000 })
  }

  follow(ref: string, o: FollowRun, who: Principal): AsyncGenerator<readonly RunEvent[]> {
    const { id } = this.get(ref, who)
    const leave = this.#followers.enter(who.owner)
    o.signal.addEventListener('abort', leave, { once: true })
    const { journal, clock } = this.#parts
    const isEnded = (): boolean => {
      const run = this.#workers.get(id)?.run ?? this.#parts.store.get(id)
      // A run that is not in the store was removed.
      return this.#isClosed || run === undefined || run.state === 'ended'
    }
    const batches = followRun({ journal, clock, notifier: this.#notifier, isEnded }, id, o)
    return (async function* () {
      try {
        yield* batches
      } finally {
        leave()
      }
    })()
  }

  /** Stops a run and keeps what it did so far. An ended run stays as it is. */
  cancel(ref: string, who: Principal): Run {
    const { id } = this.get(ref, who)
    const worker = this.#workers.get(id)
    worker?.stop({ outcome: 'canceled', reason: 'it was canceled' })
    // A run that has not started has nothing to wait for.
    if (worker && this.#removeFromQueue(worker)) this.#startWork(worker)
    return this.get(id, who)
  }

  /** Sends a follow-up: at once if the run has ended, otherwise after its current turn. */
  send(ref: string, text: string, o: { readonly limits?: NewLimits | undefined } = {}, who: Principal): Run {
    const run = this.get(ref, who)
    const agent = agentNamed(run.agent)
    if (!agent.canResume) throw cannotContinue(agent)
    const limits = limitsAfter(run, o.limits ?? {})
    const worker = this.#workers.get(run.id)
    if (worker && run.state !== 'ended') {
      if (worker.progress.wish) throw isStopping(run)
      if (worker.progress.queue.length >= MOST_QUEUED) throw queueFull()
      worker.limit(limits)
      worker.queue(text)
    } else {
      if (run.session === undefined) throw noConversation(run)
      this.#requireSandbox(run)
      this.#checkRoom(who)
      const revived = this.#revive(run)
      revived.limit(limits)
      revived.again(text)
      this.#register(revived)
    }
    return this.get(run.id, who)
  }

  /** `not_found` if the question does not exist or was answered already. */
  async answer(ref: string, permission: string, answer: 'allow' | 'deny', who: Principal): Promise<Run> {
    const run = this.get(ref, who)
    const worker = this.#workers.get(run.id)
    const question = worker?.progress.questions.find((one) => one.permission === permission)
    if (!worker || !question)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'permission.unknown',
        message: 'the question does not exist or was answered already',
      })
    if (isNetworkQuestion(question) && answer === 'allow' && run.sandboxId !== undefined)
      await this.#parts.engine.networks.change(run.sandboxId, { allow: [question.about.subject] }, who)
    worker.answer(permission, answer, 'user')
    return this.get(run.id, who)
  }

  /** The pack of its result. `not_found` if there is none. */
  result(ref: string, who: Principal): Readable {
    const run = this.get(ref, who)
    if (run.result) return createReadStream(this.#file(run.id))
    throw new AgentPodError({
      code: 'not_found',
      reason: 'run.no_result',
      message:
        run.state === 'ended' ? 'the run has no result' : 'the run has not ended, so there is no result yet',
      hint: '`agentpod runs` shows its state',
    })
  }

  /** Ends a run, destroys its sandbox and removes its record. Branches made from it stay. */
  async remove(ref: string, who: Principal): Promise<Run> {
    const run = this.get(ref, who)
    const { store, journal, directory, engine } = this.#parts
    const plan = store.plan(run.id) as RunPlan
    const last = await this.#release(run)
    const { sandboxId } = last
    await destroyUnusedGroup(engine, last, plan)
    if (sandboxId !== undefined) await engine.sandboxes.destroy(sandboxId, LOCAL).catch(ignoreNotFound)
    await rm(`${directory}/${run.id}`, { recursive: true, force: true })
    store.remove(run.id)
    journal.remove(run.id)
    this.#notify(run.id)
    return run
  }

  /** Opens its sandbox for a person: the agent ends, and its conversation can continue in a terminal. */
  async takeOver(ref: string, who: Principal): Promise<TakenOver> {
    const { id } = this.get(ref, who)
    const worker = this.#workers.get(id)
    if (worker) {
      worker.stop({ outcome: 'canceled', reason: 'a user took over' })
      const gone = AbortSignal.timeout(60_000)
      for await (const _ of this.follow(
        id,
        { after: Number.MAX_SAFE_INTEGER, keepaliveMs: 250, signal: gone },
        who,
      )) {
        if (!this.#workers.has(id)) break
      }
      if ((this.#workers.get(id)?.run.state ?? 'ended') !== 'ended') throw stillEnding()
    }
    const run = this.get(id, who)
    this.#requireSandbox(run)
    const agent = agentNamed(run.agent)
    const plan = this.#parts.store.plan(id) as RunPlan
    const sandbox = await openRunSandbox(this.#parts.engine, run, plan)
    const { user } = sandbox.spec.environment
    const assignment = assignmentOf({ agent, run, plan, user, prompt: '', asks: true })
    const launch = agent.interactive?.(assignment)
    if (launch) await writeAgentFiles(runConnection(this.#parts.engine, sandbox.id), sandbox, plan, launch)
    return {
      sandboxId: sandbox.id,
      user,
      workdir: assignment.workspace,
      command: launch?.command,
      variables: launch?.variables ?? {},
    }
  }

  /** Takes the result again, after a person worked in the sandbox. */
  handBack(ref: string, who: Principal): Run {
    const run = this.get(ref, who)
    if (this.#workers.has(run.id)) return run
    this.#requireSandbox(run)
    this.#checkRoom(who)
    const revived = this.#revive(run)
    revived.lookAgain()
    this.#register(revived)
    return this.get(run.id, who)
  }

  /** Removes all runs; for a server that is reset. */
  async clear(): Promise<void> {
    for (const { id } of this.#parts.store.list({ limit: Number.MAX_SAFE_INTEGER }))
      await this.remove(id, LOCAL)
  }

  /** A person who took a run over uses its models too. The cost limit does not end the work of a person. */
  #addPersonUsage(sandboxId: string, use: ModelUse): void {
    const { store } = this.#parts
    const run = store.kept().find((one) => one.sandboxId === sandboxId)
    if (!run || use.refusal !== undefined) return
    store.update({ ...run, usage: addUse(run.usage, use) })
    this.#notify(run.id)
  }

  readonly #notify = (id: string): void => {
    if (this.#workers.get(id)?.run.sandboxId !== undefined) this.#releaseSnapshot(id)
    this.#notifier.notify(id)
  }

  /** Protects the snapshot until the sandbox is made from it, even if the run waits for hours. */
  #holdSnapshot({ run, plan }: Worker): void {
    if (plan.snapshot === undefined || run.sandboxId !== undefined) return
    this.#heldSnapshots.set(run.id, this.#parts.engine.snapshots.hold(plan.snapshot))
  }

  #releaseSnapshot(id: string): void {
    this.#heldSnapshots.get(id)?.()
    this.#heldSnapshots.delete(id)
  }

  #file(id: string): string {
    return `${this.#parts.directory}/${id}/result.pack`
  }

  /** SECURITY: CP-16. Each unfinished run takes a sandbox, a row and memory. */
  #checkRoom(who: Principal): void {
    const mine = [...this.#workers.values()].filter(({ run }) => run.owner === who.owner)
    if (mine.length < MOST_UNFINISHED) return
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'runs.too_many',
      message: `you have ${MOST_UNFINISHED} unfinished runs, which is the limit`,
      hint: 'wait for some of them, or cancel some; `agentpod runs` lists them',
      retry: { afterMs: 10_000 },
    })
  }

  #requireSandbox(run: Run): void {
    const { engine } = this.#parts
    try {
      if (run.sandboxId !== undefined && engine.sandboxes.get(run.sandboxId, LOCAL).endedAt === undefined)
        return
    } catch (error) {
      if (!isAgentPodError(error, 'not_found')) throw error
    }
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'run.sandbox_gone',
      message: `the sandbox of run ${run.id} was removed, so it cannot continue`,
      hint: `start a new run; a sandbox is kept for a week (--keep-for), and at most ${this.#parts.mostKept} of them (AGENTPOD_KEPT_RUNS, for the server)`,
    })
  }

  /**
   * INVARIANT: the worker is registered only by `#register`, so a run that cannot start is not counted as
   * working.
   */
  #revive(run: Run): Worker {
    const { store, journal } = this.#parts
    const plan = store.plan(run.id) as RunPlan
    const progress = (journal.progress(run.id) as Progress | undefined) ?? firstProgress(run.prompt)
    const agent = agentNamed(run.agent)
    return new Worker({ parts: this.#parts, agent, plan, run, progress, onNews: this.#notify })
  }

  #resume(run: Run): void {
    try {
      this.#register(this.#revive(run))
    } catch (error) {
      ignore(this.#parts.log, error, `run ${run.id} cannot be continued`)
    }
  }

  /** Starts the worker now, or as soon as there is room. */
  #register(worker: Worker): void {
    this.#workers.set(worker.run.id, worker)
    this.#holdSnapshot(worker)
    // A run that was working before the server was killed still is.
    if (this.#working < this.#parts.atOnce || worker.run.state !== 'queued') this.#startWork(worker)
    else this.#waiting.push(worker)
  }

  #startWork(worker: Worker): void {
    this.#working++
    const work = worker
      .work()
      .then(() => this.#endGroup(worker))
      .catch((error) => this.#parts.log.error('the worker of a run failed', { run: worker.run.id, error }))
      .finally(() => {
        this.#working--
        if (this.#underWay.get(worker.run.id) === work) this.#underWay.delete(worker.run.id)
        if (this.#workers.get(worker.run.id) === worker) this.#workers.delete(worker.run.id)
        this.#releaseSnapshot(worker.run.id)
        this.#notify(worker.run.id)
        const next = this.#waiting.shift()
        if (next && !this.#isClosed) this.#startWork(next)
      })
    this.#underWay.set(worker.run.id, work)
  }

  /** A run that was canceled while it waited, or that failed to start, leaves no group. */
  async #endGroup({ run, plan }: Worker): Promise<void> {
    if (run.state !== 'ended') return
    await destroyUnusedGroup(this.#parts.engine, run, plan).catch((error) =>
      ignore(this.#parts.log, error, `the group of run ${run.id} ends at its deadline`),
    )
  }

  /** Stops following a run, and returns its last record. */
  async #release(run: Run): Promise<Run> {
    const worker = this.#workers.get(run.id)
    if (!worker) return run
    worker.leave()
    this.#removeFromQueue(worker)
    // If its sandbox is being made, wait until it is made and known.
    await this.#underWay.get(run.id)
    this.#workers.delete(run.id)
    this.#releaseSnapshot(run.id)
    return worker.run
  }

  #removeFromQueue(worker: Worker): boolean {
    const at = this.#waiting.indexOf(worker)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  #watch(): void {
    const again = async (): Promise<void> => {
      await this.#sweep().catch((error) => ignore(this.#parts.log, error, 'the next sweep tries again'))
      if (!this.#isClosed) this.#watch()
    }
    this.#cancelSweep = this.#parts.clock.after(SWEEP_EVERY_MS, () => void again())
  }

  /** Destroys the sandboxes of runs that ended long ago; their results stay. */
  async #sweep(): Promise<void> {
    const { store, clock } = this.#parts
    const kept = store.kept().filter(({ id }) => !this.#workers.has(id))
    const counts = new Map<string, number>()
    for (const run of kept.reverse()) {
      const count = (counts.get(run.owner) ?? 0) + 1
      counts.set(run.owner, count)
      if ((run.keptUntil ?? 0) > clock.now() && count <= this.#parts.mostKept) continue
      // A sandbox that cannot be destroyed does not affect the others.
      await this.#destroyKept(run.id).catch((error) =>
        ignore(this.#parts.log, error, `${run.id} is kept for now`),
      )
    }
    await this.#removeOldest()
  }

  /** SECURITY: CP-16. The ended runs of one owner have a limit; the oldest are removed first. */
  async #removeOldest(): Promise<void> {
    const totals = new Map<string, { count: number; bytes: number }>()
    for (const run of this.#parts.store.list({ limit: Number.MAX_SAFE_INTEGER })) {
      const total = totals.get(run.owner) ?? { count: 0, bytes: 0 }
      totals.set(run.owner, total)
      total.count++
      total.bytes += run.result?.packBytes ?? 0
      const isRoom = total.count <= MOST_REMEMBERED && total.bytes <= MOST_RESULT_BYTES
      if (isRoom || run.state !== 'ended' || this.#workers.has(run.id) || this.#isInUse(run)) continue
      await this.remove(run.id, LOCAL).catch((error) =>
        ignore(this.#parts.log, error, `${run.id} is kept for now`),
      )
    }
  }

  /** INVARIANT: checked again here, because the run may have been continued while others were destroyed. */
  async #destroyKept(id: string): Promise<void> {
    const { store, engine } = this.#parts
    const run = store.get(id)
    if (!run || this.#workers.has(id) || this.#isInUse(run)) return
    if (run.sandboxId !== undefined)
      await engine.sandboxes.destroy(run.sandboxId, LOCAL).catch(ignoreNotFound)
    const now = store.get(id)
    if (now && !this.#workers.has(id)) store.update({ ...now, keptUntil: undefined })
  }

  /** A person who took over works in it; it is stopped at its deadline. */
  #isInUse({ sandboxId }: Run): boolean {
    try {
      return sandboxId !== undefined && this.#parts.engine.sandboxes.get(sandboxId, LOCAL).state === 'running'
    } catch (error) {
      ignoreNotFound(error)
      return false
    }
  }
}

function ignoreNotFound(error: unknown): void {
  if (!isAgentPodError(error, 'not_found')) throw error
}

function limitsAfter({ id, limits, usage }: Run, wanted: NewLimits): RunLimits {
  const after = { ...limits, ...dropUndefined(wanted) }
  if (after.costUsd === undefined || (usage.costUsd ?? 0) < after.costUsd) return after
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.over_budget',
    message: `run ${id} has cost $${(usage.costUsd ?? 0).toFixed(4)} of its limit of $${after.costUsd}`,
    hint: 'raise the limit: `agentpod send --max-cost USD RUN TEXT`',
  })
}

function cannotContinue(agent: Agent): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'run.no_resume',
    message: `${agent.title} cannot continue a conversation`,
    hint: 'start a new run',
  })
}

function isStopping(run: Run): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.stopping',
    message: `run ${run.id} is stopping, so it accepts no message`,
    hint: 'send the message again when the run has ended',
    retry: { afterMs: 2000 },
  })
}

function queueFull(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'run.queue_full',
    message: `${MOST_QUEUED} messages are already waiting for this run`,
    hint: 'wait until it has worked through some of them',
    retry: { afterMs: 10_000 },
  })
}

function stillEnding(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'run.ending',
    message: 'the run is still ending; its result is being taken',
    hint: 'try again in a moment',
    retry: { afterMs: 5000 },
  })
}

function noConversation(run: Run): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.no_session',
    message: `run ${run.id} has no conversation that could continue`,
    hint: 'start a new run',
  })
}
