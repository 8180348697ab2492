/** Agents at work: started, followed, answered, stopped, gone on with. Front doors translate into these calls and nothing else. */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Agent } from '../agents/agent.ts'
import { agentNamed } from '../agents/agents.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import { MOST_LISTED_RUNS, NO_USAGE, type Run, type RunEvent, type RunLimits } from '../core/run.ts'
import { Followers } from '../engine/follow.ts'
import { ignore } from '../telemetry/log.ts'
import { defined } from '../util/defined.ts'
import { failpoint } from '../util/failpoint.ts'
import { replaceHidden } from '../util/hidden-characters.ts'
import { News } from '../util/news.ts'
import { randomWord } from '../util/random.ts'
import { checkRequest, type NewRun } from './check-request.ts'
import { type FollowRun, followRun } from './follow.ts'
import type { RunsParts } from './parts.ts'
import type { RunPlan } from './plan.ts'
import { firstProgress, isOfWayOut, type Progress } from './progress.ts'
import { assignmentOf, enterStage, furnish, liveOf } from './stage.ts'
import { addUse, type ModelUse } from './usage.ts'
import { Worker } from './worker.ts'

/** In place of what a run has. */
export interface NewLimits {
  readonly timeMs?: number | undefined
  readonly costUsd?: number | undefined
}

const SWEEP_EVERY_MS = 60_000
/** Runs of one owner, and what their results take together. */
const MOST_REMEMBERED = 500
const MOST_RESULT_BYTES = 8 * 1024 ** 3
const MOST_UNFINISHED = 64
/** Messages that wait for one run. */
const MOST_QUEUED = 32

/** A terminal in the sandbox of a run, as the agent's own conversation or as a shell. */
export interface TakenOver {
  readonly sandboxId: string
  readonly user: string
  readonly workdir: string
  /** Left out where the agent has no such thing: a shell is all there is. */
  readonly command: readonly string[] | undefined
  readonly variables: Readonly<Record<string, string>>
}

export class Runs {
  readonly #parts: RunsParts
  readonly #news = new News()
  readonly #followers = new Followers()
  readonly #workers = new Map<string, Worker>()
  readonly #waiting: Worker[] = []
  /** Those that are at work, until they have let go of everything. */
  readonly #settling = new Map<string, Promise<void>>()
  /** Lets go of the snapshot that a run waits to be made from. */
  readonly #held = new Map<string, () => void>()
  #working = 0
  #isClosed = false
  #cancelSweep = (): void => undefined
  #forget = (): void => undefined

  constructor(parts: RunsParts) {
    this.#parts = parts
  }

  /** Goes on with what an earlier life left unfinished. */
  open(): void {
    this.#forget = this.#parts.engine.onModelUsage((sandboxId, use) => {
      const worker = [...this.#workers.values()].find(({ run }) => run.sandboxId === sandboxId)
      if (worker) worker.use(use)
      else this.#useOfPerson(sandboxId, use)
    })
    const { store, journal } = this.#parts
    // A server that was killed between the journal and the run has begun nothing.
    journal.forget((id) => store.get(id) !== undefined)
    for (const run of store.unfinished()) this.#resume(run)
    this.#watch()
  }

  /** Agents work on; the next server follows them. */
  close(): void {
    this.#isClosed = true
    this.#forget()
    this.#cancelSweep()
    for (const worker of this.#workers.values()) worker.leave()
  }

  get busyCount(): number {
    return this.#workers.size
  }

  /** Answers when it is written down; what follows is told by its events. */
  async start(request: NewRun, who: Principal = LOCAL): Promise<Run> {
    const agent = agentNamed(request.agent)
    checkRequest(agent, request)
    this.#checkRoom(who)
    const { engine, clock, random, store, journal } = this.#parts
    const snapshot = request.snapshot === undefined ? undefined : engine.getSnapshot(request.snapshot, who).id
    if (request.secret !== undefined) engine.secrets.need([request.secret], who)
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
    // The journal first: a run without progress could not be gone on with, progress without a run is nothing.
    journal.write(run.id, { at: now, events: [{ type: 'state', state: 'queued' }], progress })
    store.insert(run, plan)
    failpoint('run.intended')
    this.#employ(new Worker({ parts: this.#parts, agent, plan, run, progress, onNews: this.#tell }))
    return run
  }

  /** One agent's runs on a project are counted, so that each has a number of its own; what is asked for is the least it may be. */
  #numberOf({ project, number }: NewRun, agent: Agent, { owner }: Principal): number {
    if (!project) return number
    const others = this.#parts.store
      .list({ owner, project: project.key, limit: Number.MAX_SAFE_INTEGER })
      .filter((run) => run.agent === agent.name)
    return Math.max(number, ...others.map((run) => run.number + 1))
  }

  get(ref: string, who: Principal = LOCAL): Run {
    const run = this.#workers.get(ref)?.run ?? this.#parts.store.get(ref)
    if (run && (who.isAdmin || run.owner === who.owner)) return run
    throw new AgentPodError({
      code: 'not_found',
      reason: 'run.unknown',
      message: `there is no run ${printable(ref)}`,
      hint: '`agentpod runs` lists them',
    })
  }

  /** Newest first. */
  list(
    o: { readonly project?: string | undefined; readonly group?: string | undefined },
    who: Principal = LOCAL,
  ): Run[] {
    return this.#parts.store
      .list({ ...o, owner: who.isAdmin ? undefined : who.owner, limit: MOST_LISTED_RUNS })
      .map((run) => this.#workers.get(run.id)?.run ?? run)
  }

  /** Oldest first, at most 1,000. */
  events(ref: string, after: number, who: Principal = LOCAL): RunEvent[] {
    return this.#parts.journal.events(this.get(ref, who).id, { after, limit: 1000 })
  }

  follow(ref: string, o: FollowRun, who: Principal = LOCAL): AsyncGenerator<readonly RunEvent[]> {
    const { id } = this.get(ref, who)
    const leave = this.#followers.enter(who.owner)
    o.signal.addEventListener('abort', leave, { once: true })
    const { journal, clock } = this.#parts
    const isEnded = (): boolean => {
      const run = this.#workers.get(id)?.run ?? this.#parts.store.get(id)
      // One that is not there any more was removed.
      return this.#isClosed || run === undefined || run.state === 'ended'
    }
    const batches = followRun({ journal, clock, news: this.#news, isEnded }, id, o)
    return (async function* () {
      try {
        yield* batches
      } finally {
        leave()
      }
    })()
  }

  /** Has it stop; what it did until then is kept. One that has ended stays as it is. */
  cancel(ref: string, who: Principal = LOCAL): Run {
    const { id } = this.get(ref, who)
    const worker = this.#workers.get(id)
    worker?.stop({ outcome: 'canceled', reason: 'it was asked to stop' })
    // One that has not begun has nothing to wait for.
    if (worker && this.#takeOut(worker)) this.#put(worker)
    return this.get(id, who)
  }

  /** Something more to do: at once where it has ended, else after what it is doing. */
  send(
    ref: string,
    text: string,
    o: { readonly limits?: NewLimits | undefined } = {},
    who: Principal = LOCAL,
  ): Run {
    const run = this.get(ref, who)
    const agent = agentNamed(run.agent)
    if (!agent.canResume) throw cannotGoOn(agent)
    const limits = limitsAfter(run, o.limits ?? {})
    const worker = this.#workers.get(run.id)
    if (worker && run.state !== 'ended') {
      if (worker.progress.wish) throw isStopping(run)
      if (worker.progress.queue.length >= MOST_QUEUED) throw tooMuchSaid()
      worker.limit(limits)
      worker.queue(text)
    } else {
      if (run.session === undefined) throw neverBegun(run)
      this.#needSandbox(run)
      this.#checkRoom(who)
      const revived = this.#revive(run)
      revived.limit(limits)
      revived.again(text)
      this.#employ(revived)
    }
    return this.get(run.id, who)
  }

  /** `not_found` where it was answered already, or was never asked. */
  async answer(
    ref: string,
    permission: string,
    answer: 'allow' | 'deny',
    who: Principal = LOCAL,
  ): Promise<Run> {
    const run = this.get(ref, who)
    const worker = this.#workers.get(run.id)
    const question = worker?.progress.questions.find((one) => one.permission === permission)
    if (!worker || !question)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'permission.unknown',
        message: 'there is no such question, or it was answered already',
      })
    if (isOfWayOut(question) && answer === 'allow' && run.sandboxId !== undefined)
      await this.#parts.engine.networks.change(run.sandboxId, { allow: [question.about.subject] }, who)
    worker.answer(permission, answer, 'user')
    return this.get(run.id, who)
  }

  /** The pack that it came to. `not_found` where there is none. */
  result(ref: string, who: Principal = LOCAL): Readable {
    const run = this.get(ref, who)
    if (run.result) return createReadStream(this.#file(run.id))
    throw new AgentPodError({
      code: 'not_found',
      reason: 'run.no_result',
      message:
        run.state === 'ended'
          ? 'the run has left no result'
          : 'the run has not ended, so there is no result yet',
      hint: '`agentpod runs` shows how it is',
    })
  }

  /** Ends what it does, destroys its sandbox and forgets it. A branch that was made of it stays. */
  async remove(ref: string, who: Principal = LOCAL): Promise<Run> {
    const run = this.get(ref, who)
    const { store, journal, directory, engine } = this.#parts
    const { sandboxId } = await this.#dismiss(run)
    if (sandboxId !== undefined) await engine.destroy(sandboxId).catch(unlessGone)
    await rm(`${directory}/${run.id}`, { recursive: true, force: true })
    store.remove(run.id)
    journal.remove(run.id)
    this.#tell(run.id)
    return run
  }

  /** Opens its sandbox for a person: the agent ends, and its conversation can go on in a terminal. */
  async takeOver(ref: string, who: Principal = LOCAL): Promise<TakenOver> {
    const { id } = this.get(ref, who)
    const worker = this.#workers.get(id)
    if (worker) {
      worker.stop({ outcome: 'canceled', reason: 'somebody took over' })
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
    this.#needSandbox(run)
    const agent = agentNamed(run.agent)
    const plan = this.#parts.store.plan(id) as RunPlan
    const sandbox = await enterStage(this.#parts.engine, run, plan)
    const { user } = sandbox.spec.environment
    const assignment = assignmentOf(agent, run, plan, user, '', true)
    const launch = agent.interactive?.(assignment)
    if (launch) await furnish(liveOf(this.#parts.engine, sandbox.id), sandbox, plan, launch)
    return {
      sandboxId: sandbox.id,
      user,
      workdir: assignment.workspace,
      command: launch?.command,
      variables: launch?.variables ?? {},
    }
  }

  /** Takes the result anew, after somebody worked in its sandbox. */
  handBack(ref: string, who: Principal = LOCAL): Run {
    const run = this.get(ref, who)
    if (this.#workers.has(run.id)) return run
    this.#needSandbox(run)
    this.#checkRoom(who)
    const revived = this.#revive(run)
    revived.lookAgain()
    this.#employ(revived)
    return this.get(run.id, who)
  }

  /** Everything that is left of runs, for a server that is cleared. */
  async clear(): Promise<void> {
    for (const { id } of this.#parts.store.list({ limit: Number.MAX_SAFE_INTEGER })) await this.remove(id)
  }

  /** Somebody who took a run over uses its models too. A limit of money does not end what a person does. */
  #useOfPerson(sandboxId: string, use: ModelUse): void {
    const { store } = this.#parts
    const run = store.kept().find((one) => one.sandboxId === sandboxId)
    if (!run || use.refusal !== undefined) return
    store.update({ ...run, usage: addUse(run.usage, use) })
    this.#tell(run.id)
  }

  readonly #tell = (id: string): void => {
    if (this.#workers.get(id)?.run.sandboxId !== undefined) this.#releaseSnapshot(id)
    this.#news.tell(id)
  }

  /** What its sandbox will be made from stays until that is there, also where it waits for room for hours. */
  #holdSnapshot({ run, plan }: Worker): void {
    if (plan.snapshot === undefined || run.sandboxId !== undefined) return
    this.#held.set(run.id, this.#parts.engine.holdSnapshot(plan.snapshot))
  }

  #releaseSnapshot(id: string): void {
    this.#held.get(id)?.()
    this.#held.delete(id)
  }

  #file(id: string): string {
    return `${this.#parts.directory}/${id}/result.pack`
  }

  /** SECURITY: CP-16. Each takes a sandbox, a row and a place in memory until it has ended. */
  #checkRoom(who: Principal): void {
    const mine = [...this.#workers.values()].filter(({ run }) => run.owner === who.owner)
    if (mine.length < MOST_UNFINISHED) return
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'runs.too_many',
      message: `${MOST_UNFINISHED} runs are at work or waiting, which is all one owner may have`,
      hint: 'wait for some of them, or cancel them: `agentpod runs`',
      retry: { afterMs: 10_000 },
    })
  }

  #needSandbox(run: Run): void {
    const { engine } = this.#parts
    try {
      if (run.sandboxId !== undefined && engine.get(run.sandboxId).endedAt === undefined) return
    } catch (error) {
      if (!isAgentPodError(error, 'not_found')) throw error
    }
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'run.sandbox_gone',
      message: `the sandbox of run ${run.id} was removed, so it takes no follow-up`,
      hint: `start a new run; a sandbox is kept for a week (--keep-for), and at most ${this.#parts.mostKept} of them (AGENTPOD_KEPT_RUNS, for the server)`,
    })
  }

  /** INVARIANT: it is nobody's until it is employed, so that one that cannot begin is not taken for one at work. */
  #revive(run: Run): Worker {
    const { store, journal } = this.#parts
    const plan = store.plan(run.id) as RunPlan
    const progress = (journal.progress(run.id) as Progress | undefined) ?? firstProgress(run.prompt)
    const agent = agentNamed(run.agent)
    return new Worker({ parts: this.#parts, agent, plan, run, progress, onNews: this.#tell })
  }

  #resume(run: Run): void {
    try {
      this.#employ(this.#revive(run))
    } catch (error) {
      ignore(this.#parts.log, error, `run ${run.id} cannot be gone on with`)
    }
  }

  /** At work now, or as soon as there is room. */
  #employ(worker: Worker): void {
    this.#workers.set(worker.run.id, worker)
    this.#holdSnapshot(worker)
    // What was at work before the server was killed still is.
    if (this.#working < this.#parts.atOnce || worker.run.state !== 'queued') this.#put(worker)
    else this.#waiting.push(worker)
  }

  #put(worker: Worker): void {
    this.#working++
    const work = worker
      .work()
      .catch((error) => this.#parts.log.error('a run stopped working', { run: worker.run.id, error }))
      .finally(() => {
        this.#working--
        if (this.#settling.get(worker.run.id) === work) this.#settling.delete(worker.run.id)
        if (this.#workers.get(worker.run.id) === worker) this.#workers.delete(worker.run.id)
        this.#releaseSnapshot(worker.run.id)
        this.#tell(worker.run.id)
        const next = this.#waiting.shift()
        if (next && !this.#isClosed) this.#put(next)
      })
    this.#settling.set(worker.run.id, work)
  }

  /** Lets go of a run, and answers what it was last. */
  async #dismiss(run: Run): Promise<Run> {
    const worker = this.#workers.get(run.id)
    if (!worker) return run
    worker.leave()
    this.#takeOut(worker)
    // A sandbox that is being made is made to the end, and is known then.
    await this.#settling.get(run.id)
    this.#workers.delete(run.id)
    this.#releaseSnapshot(run.id)
    return worker.run
  }

  #takeOut(worker: Worker): boolean {
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

  /** Sandboxes of runs that ended long ago go; what they came to stays. */
  async #sweep(): Promise<void> {
    const { store, clock } = this.#parts
    const kept = store.kept().filter(({ id }) => !this.#workers.has(id))
    const counts = new Map<string, number>()
    for (const run of kept.reverse()) {
      const count = (counts.get(run.owner) ?? 0) + 1
      counts.set(run.owner, count)
      if ((run.keptUntil ?? 0) > clock.now() && count <= this.#parts.mostKept) continue
      // One that cannot be destroyed keeps no other.
      await this.#letGo(run.id).catch((error) => ignore(this.#parts.log, error, `${run.id} is kept for now`))
    }
    await this.#forgetOldest()
  }

  /** SECURITY: CP-16. What one owner's ended runs take has a bound; the oldest go first. */
  async #forgetOldest(): Promise<void> {
    const totals = new Map<string, { count: number; bytes: number }>()
    for (const run of this.#parts.store.list({ limit: Number.MAX_SAFE_INTEGER })) {
      const total = totals.get(run.owner) ?? { count: 0, bytes: 0 }
      totals.set(run.owner, total)
      total.count++
      total.bytes += run.result?.packBytes ?? 0
      const isRoom = total.count <= MOST_REMEMBERED && total.bytes <= MOST_RESULT_BYTES
      if (isRoom || run.state !== 'ended' || this.#workers.has(run.id) || this.#isOpen(run)) continue
      await this.remove(run.id).catch((error) => ignore(this.#parts.log, error, `${run.id} is kept for now`))
    }
  }

  /** INVARIANT: looked at anew, since somebody may have gone on with it while others were destroyed. */
  async #letGo(id: string): Promise<void> {
    const { store, engine } = this.#parts
    const run = store.get(id)
    if (!run || this.#workers.has(id) || this.#isOpen(run)) return
    if (run.sandboxId !== undefined) await engine.destroy(run.sandboxId).catch(unlessGone)
    const now = store.get(id)
    if (now && !this.#workers.has(id)) store.update({ ...now, keptUntil: undefined })
  }

  /** Somebody works in it who took over; it is stopped when its own time is over. */
  #isOpen({ sandboxId }: Run): boolean {
    try {
      return sandboxId !== undefined && this.#parts.engine.get(sandboxId).state === 'running'
    } catch (error) {
      unlessGone(error)
      return false
    }
  }
}

function unlessGone(error: unknown): void {
  if (!isAgentPodError(error, 'not_found')) throw error
}

function printable(text: string): string {
  return replaceHidden(text.slice(0, 64))
}

function limitsAfter({ id, limits, usage }: Run, wanted: NewLimits): RunLimits {
  const after = { ...limits, ...defined(wanted) }
  if (after.costUsd === undefined || (usage.costUsd ?? 0) < after.costUsd) return after
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.over_budget',
    message: `run ${id} has used $${(usage.costUsd ?? 0).toFixed(4)}, and may use $${after.costUsd} in all`,
    hint: 'give it more: `agentpod send --max-cost USD RUN TEXT`',
  })
}

function cannotGoOn(agent: Agent): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'run.no_resume',
    message: `${agent.title} cannot go on with a conversation`,
    hint: 'start a new run',
  })
}

function isStopping(run: Run): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.stopping',
    message: `run ${run.id} was told to stop, so it takes nothing more to do`,
    hint: 'send it again when it has ended',
    retry: { afterMs: 2000 },
  })
}

function tooMuchSaid(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'run.queue_full',
    message: `${MOST_QUEUED} messages wait for this run already`,
    hint: 'wait until it has done some of them',
    retry: { afterMs: 10_000 },
  })
}

function stillEnding(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'run.ending',
    message: 'the run is still ending: its result is being taken',
    hint: 'try again in a moment',
    retry: { afterMs: 5000 },
  })
}

function neverBegun(run: Run): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.no_session',
    message: `run ${run.id} never came to a conversation that could go on`,
    hint: 'start a new run',
  })
}
