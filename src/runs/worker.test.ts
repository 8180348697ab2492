import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { agentNamed } from '../agents/agents.ts'
import type { TurnEnd } from '../agents/drivers/driver.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'
import { NO_USAGE, type Run, type RunState } from '../core/run.ts'
import type { GuestConnection } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS } from '../store/events.ts'
import { type RunJournal, runJournal } from '../store/run-journal.ts'
import { runStore } from '../store/runs.ts'
import { STATE_MIGRATIONS } from '../store/sandboxes.ts'
import { jsonLog } from '../telemetry/log.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { AgentInput } from './agent-input.ts'
import { NetworkWatch } from './network-watch.ts'
import type { RunsParts } from './parts.ts'
import type { RunPlan } from './plan.ts'
import { firstProgress, type Progress } from './progress.ts'
import { RunRecord } from './record.ts'
import { Runs } from './runs.ts'
import { isFlood, keep } from './transcript.ts'
import { Worker } from './worker.ts'

const PLAN: RunPlan = {
  asker: LOCAL,
  agent: 'acp',
  prompt: 'do it',
  number: 1,
  files: [],
  mcpServers: [],
  command: [],
  permissions: { bash: [], write: [], mcp: [], network: [{ pattern: '*', decision: 'ask' }] },
  limits: { timeMs: 60_000, answerMs: 1000, costUsd: undefined },
  keepMs: 0,
}

const RUN: Run = {
  id: 'run1',
  owner: LOCAL.owner,
  group: undefined,
  agent: 'acp',
  number: 1,
  turn: 1,
  model: undefined,
  prompt: 'do it',
  state: 'working',
  outcome: undefined,
  reason: undefined,
  sandboxId: undefined,
  session: 'session',
  project: undefined,
  result: undefined,
  usage: NO_USAGE,
  denials: 0,
  limits: PLAN.limits,
  permissions: PLAN.permissions,
  createdAt: 0,
  endedAt: undefined,
  keptUntil: undefined,
}

interface WorkerStage extends Disposable {
  readonly parts: RunsParts
  readonly clock: FakeClock
  worker(state: RunState, progress: Progress, run?: Partial<Run>): Worker
}

/** No sandbox is there: whatever a worker wants of one is refused. */
function workerStage(change: (journal: RunJournal) => RunJournal = (journal) => journal): WorkerStage {
  const state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  const events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  const clock = new FakeClock()
  const gone = (): never => {
    throw new AgentPodError({ code: 'not_found', reason: 'test', message: 'no sandbox' })
  }
  const sandboxes = { get: gone, stop: gone, destroy: gone }
  const engine = { guests: { connection: gone }, sandboxes } as unknown as Engine
  const parts: RunsParts = {
    engine,
    store: runStore(state),
    journal: change(runJournal(events)),
    directory: '/nonexistent',
    atOnce: 1,
    mostKept: 100,
    clock,
    random: new SeededRandom(1),
    log: jsonLog(clock, () => undefined),
  }
  return {
    parts,
    clock,
    worker(at, progress, more = {}) {
      const run = { ...RUN, ...more, state: at }
      parts.store.insert(run, PLAN)
      return new Worker({
        parts,
        agent: agentNamed('acp'),
        plan: PLAN,
        run,
        progress,
        onNews: () => undefined,
      })
    },
    [Symbol.dispose]() {
      state.close()
      events.close()
    },
  }
}

/** An agent that waits for a yes or a no to fetching something. */
function asking(): Progress {
  const { driver } = agentNamed('acp')
  const turn = { ...PLAN, workspace: '/home/user/project', model: undefined, asks: false, session: undefined }
  const said = [
    { id: 1, result: { protocolVersion: 1, agentCapabilities: {} } },
    { id: 2, result: { sessionId: 's' } },
  ]
  let { state } = driver.begin(turn)
  for (const one of said) ({ state } = driver.line(state, JSON.stringify({ jsonrpc: '2.0', ...one })))
  const step = driver.line(
    state,
    JSON.stringify({
      jsonrpc: '2.0',
      id: 'question',
      method: 'session/request_permission',
      params: {
        toolCall: {
          toolCallId: 't',
          kind: 'fetch',
          title: 'fetch',
          rawInput: { url: 'https://example.com/' },
        },
        options: [
          { kind: 'allow_once', optionId: 'yes' },
          { kind: 'reject_once', optionId: 'no' },
        ],
      },
    }),
  )
  assert.equal(step.questions[0]?.about.kind, 'network')
  const questions = step.questions.map((one) => ({ ...one, askedAt: 0 }))
  return { ...firstProgress('do it'), driver: step.state, questions }
}

describe('a question of the agent about the network', () => {
  for (const [answer, option] of [
    ['allow', 'yes'],
    ['deny', 'no'],
  ] as const)
    test(`a network question that the agent itself asks is answered to the agent with ${answer}`, () => {
      using at = workerStage()
      const worker = at.worker('waiting', asking())
      assert.ok(worker.answer('p1', answer, 'user'))
      assert.match(at.parts.journal.input(RUN.id, 1).toString(), new RegExp(`"optionId":"${option}"`))
      assert.equal(worker.run.state, 'working')
    })
})

describe('what is said to a run', () => {
  const DONE: TurnEnd = { how: 'done', message: undefined }

  test('a follow-up survives a server that is killed between writing the journal and the run', async () => {
    using at = workerStage()
    at.worker('finishing', { ...firstProgress('do it'), end: DONE, queue: ['more'] })
    // The first half of what `RunRecord.turn` writes.
    const progress = { ...firstProgress('more'), turn: 2 }
    at.parts.journal.write(RUN.id, { at: 0, events: [], progress })
    const run = at.parts.store.get(RUN.id) ?? assert.fail('no run')
    const next = new Worker({
      parts: at.parts,
      agent: agentNamed('acp'),
      plan: PLAN,
      run,
      progress,
      onNews: () => undefined,
    })
    await next.work()
    const states = at.parts.journal
      .events(RUN.id, { after: 0, limit: 100 })
      .flatMap(({ body }) => (body.type === 'state' ? [body.state] : []))
    assert.equal(states[0], 'starting')
    assert.equal(next.run.turn, 2)
  })

  test('a follow-up to a stopping run is refused, and never silently dropped', async () => {
    using at = workerStage()
    const progress = { ...firstProgress('do it'), wish: { outcome: 'canceled', reason: 'x' } as const }
    at.worker('finishing', progress)
    at.parts.journal.write(RUN.id, { at: 0, events: [], progress })
    const runs = new Runs({
      ...at.parts,
      engine: { ...at.parts.engine, networks: { onModelUsage: () => () => undefined } } as never,
    })
    runs.open()
    assert.throws(
      () => runs.send(RUN.id, 'more', {}, LOCAL),
      (error) => isAgentPodError(error, 'failed_precondition') && error.reason === 'run.stopping',
    )
    runs.close()
  })

  test('the queue of follow-ups has a limit', () => {
    using at = workerStage()
    const progress = { ...firstProgress('do it'), queue: Array.from({ length: 32 }, () => 'more') }
    at.worker('finishing', progress)
    at.parts.journal.write(RUN.id, { at: 0, events: [], progress })
    const runs = new Runs({
      ...at.parts,
      atOnce: 0,
      engine: { ...at.parts.engine, networks: { onModelUsage: () => () => undefined } } as never,
    })
    const queued = at.parts.store.get(RUN.id) ?? assert.fail('no run')
    at.parts.store.update({ ...queued, state: 'queued' })
    runs.open()
    assert.throws(
      () => runs.send(RUN.id, 'more', {}, LOCAL),
      (error) => isAgentPodError(error, 'resource_exhausted'),
    )
    runs.close()
  })

  test('a cancel while the result is taken drops queued follow-ups, and reports it', () => {
    using at = workerStage()
    const worker = at.worker('finishing', { ...firstProgress('do it'), end: DONE, queue: ['more'] })
    worker.stop({ outcome: 'canceled', reason: 'it was canceled' })
    assert.deepEqual(worker.progress.queue, [])
    assert.match(JSON.stringify(at.parts.journal.events(RUN.id, { after: 0, limit: 9 })), /are dropped/)
  })
})

test('the journal of a run that was never stored is removed at the next start', () => {
  using at = workerStage()
  at.worker('ended', firstProgress('do it'))
  for (const id of [RUN.id, 'run2'])
    at.parts.journal.write(id, {
      at: 0,
      events: [{ type: 'state', state: 'queued' }],
      progress: firstProgress('do it'),
    })
  const runs = new Runs({
    ...at.parts,
    engine: { networks: { onModelUsage: () => () => undefined } } as never,
  })
  runs.open()
  runs.close()
  const kept = (id: string): number => at.parts.journal.events(id, { after: 0, limit: 9 }).length
  assert.deepEqual([kept(RUN.id), kept('run2'), at.parts.journal.progress('run2')], [1, 0, undefined])
})

test('following a run ends when the run is removed', async () => {
  using at = workerStage()
  at.worker('ended', firstProgress('do it'), { endedAt: 1 })
  const ended = at.parts.store.get(RUN.id) ?? assert.fail('no run')
  at.parts.store.update({ ...ended, state: 'queued' })
  const runs = new Runs(at.parts)
  const seen: unknown[] = []
  const following = (async () => {
    const o = { after: 0, keepaliveMs: 1000, signal: new AbortController().signal }
    for await (const batch of runs.follow(RUN.id, o, LOCAL)) seen.push(batch)
  })()
  await new Promise((resolve) => setImmediate(resolve))
  await runs.remove(RUN.id, LOCAL)
  await following
  assert.deepEqual(seen, [])
})

test('kept sandboxes of ended runs are destroyed, except one in use, and a failure does not affect the others', async () => {
  using at = workerStage()
  const sandboxes = new Map([
    ['open', 'running'],
    ['stuck', 'stopped'],
    ['old', 'stopped'],
  ])
  for (const name of sandboxes.keys())
    at.worker('ended', firstProgress('do it'), { id: name, sandboxId: name as never, keptUntil: 1 })
  const destroyed: string[] = []
  const engine = {
    networks: { onModelUsage: () => () => undefined },
    sandboxes: {
      get: (id: string) => ({ state: sandboxes.get(id) }),
      async destroy(id: string) {
        if (id === 'stuck') throw new Error('it does not end')
        destroyed.push(id)
      },
    },
  } as unknown as Engine
  const runs = new Runs({ ...at.parts, engine })
  runs.open()
  await at.clock.advance(60_000)
  runs.close()
  assert.deepEqual(destroyed, ['old'])
  assert.deepEqual(
    at.parts.store.kept().map(({ id }) => id),
    ['open', 'stuck'],
  )
})

test('a run that cannot be stored as working is not counted as working', () => {
  const full = new AgentPodError({ code: 'resource_exhausted', reason: 'disk.full', message: 'full' })
  let isFull = false
  using at = workerStage((journal) => ({
    ...journal,
    write(id, entry) {
      if (isFull) throw full
      journal.write(id, entry)
    },
  }))
  at.worker('ended', firstProgress('do it'), { sandboxId: 'sb' as never })
  const sandboxes = { get: () => ({ endedAt: undefined }) }
  const engine = { ...at.parts.engine, sandboxes } as unknown as Engine
  const runs = new Runs({ ...at.parts, engine })
  isFull = true
  assert.throws(() => runs.handBack(RUN.id, LOCAL), full)
  assert.throws(() => runs.send(RUN.id, 'more', {}, LOCAL), full)
  assert.equal(runs.busyCount, 0)
})

test('a full disk in a timer callback does not end the server', async () => {
  let isFull = false
  using at = workerStage((journal) => ({
    ...journal,
    write(id, entry) {
      if (isFull)
        throw new AgentPodError({ code: 'resource_exhausted', reason: 'disk.full', message: 'full' })
      journal.write(id, entry)
    },
  }))
  const worker = at.worker('working', { ...firstProgress('do it') })
  worker.use({ model: 'm', input: 1, cached: 0, output: 1 } as never)
  assert.equal(at.clock.waiting, 1)
  isFull = true
  // An exception of the timer would come out here.
  await at.clock.advance(2000)
  worker.use({ model: 'm', input: 0, cached: 0, output: 0, refusal: 500 } as never)
})

test('each temporary refusal of the model is reported, up to a limit', () => {
  using at = workerStage()
  const worker = at.worker('working', { ...firstProgress('do it') })
  const refused = (refusal: number): void =>
    worker.use({ model: '', input: 0, cached: 0, output: 0, refusal } as never)
  const notes = (): string[] =>
    at.parts.journal
      .events(RUN.id, { after: 0, limit: 1000 })
      .flatMap(({ body }) => (body.type === 'note' ? [body.text] : []))
  for (const status of [529, 529, 404]) refused(status)
  worker.use({ model: 'm', input: 1, cached: 0, output: 1 } as never)
  refused(429)
  assert.deepEqual(notes(), [
    'The model answered 529 (overloaded); the agent may retry.',
    'The model answered 529 (overloaded), 2 times in a row; the agent may retry.',
    'The model answered 429 (too many requests); the agent may retry.',
  ])
  for (let times = 0; times < 500; times++) refused(503)
  assert.equal(notes().length, 201)
  assert.match(notes().at(-1) ?? '', /further refusals are not reported/)
})

describe('floods', () => {
  test('a flood of refused host names becomes few questions', async () => {
    using at = workerStage()
    at.parts.store.insert(RUN, PLAN)
    const record = new RunRecord(at.parts, {
      run: RUN,
      progress: firstProgress('do it'),
      onNews: () => undefined,
    })
    const batch = Array.from({ length: 500 }, (_, i) => ({
      seq: i + 1,
      data: { verdict: 'denied', host: `h${i}.example.com`, port: 443, reason: 'rule.none' },
    }))
    const engine = {
      events: {
        async *follow() {
          yield batch
        },
      },
    } as unknown as Engine
    const watch = new NetworkWatch(
      { ...at.parts, engine },
      { record, asker: LOCAL, onQuestion: () => undefined },
    )
    await watch.follow('sb' as never, new AbortController().signal)
    assert.equal(record.progress.netSeq, 500)
    assert.equal(record.progress.questions.length, 32)
  })

  test('a flood of questions that rules answer ends the run', () => {
    const about = { kind: 'bash', subject: 'x'.repeat(64 * 1024), title: 'x' } as const
    let bytes = 0
    let count = 0
    for (; count < 10_000 && !isFlood(bytes); count++)
      ({ bytes } = keep([{ type: 'permission.asked', permission: 'p1', about }], bytes))
    assert.ok(count < 2100, `${count} were kept`)
  })

  test('sends to an agent that does not read its input wait as one', async () => {
    const { promise, reject } = Promise.withResolvers<never>()
    let asked = 0
    const journal = {
      input() {
        asked++
        return Buffer.from('x')
      },
    } as unknown as RunJournal
    const processes = { list: () => promise, writeAt: () => promise }
    const guest = { processes } as unknown as GuestConnection['guest']
    const input = new AgentInput({
      journal,
      log: jsonLog(new FakeClock(), () => undefined),
      runId: 'run1',
      turn: 1,
      tag: 'tag',
      signal: new AbortController().signal,
    })
    for (let i = 0; i < 1000; i++) {
      input.send({ guest, ended: new AbortController() } as GuestConnection)
      await Promise.resolve()
    }
    reject(new Error('the agent is gone'))
    for (let i = 0; i < 10; i++) await new Promise((done) => setImmediate(done))
    assert.ok(asked <= 3, `it was read ${asked} times`)
  })
})

test('open questions share one timer, and each is denied at its own time', async () => {
  using at = workerStage()
  const { questions, ...progress } = asking()
  const about = { kind: 'network', subject: 'example.com:443', title: 'reach it' } as const
  const others = Array.from({ length: 20 }, (_, i) => ({
    permission: `net-${i}`,
    about,
    askedAt: at.clock.now(),
  }))
  const worker = at.worker('waiting', { ...progress, questions: [...questions, ...others] })
  worker.answer('p1', 'allow', 'user')
  assert.equal(at.clock.waiting, 1)
  await at.clock.advance(PLAN.limits.answerMs)
  assert.deepEqual(worker.progress.questions, [])
  assert.equal(at.clock.waiting, 0)
})
