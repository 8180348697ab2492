/**
 * A server under random load: many callers at once, a provider that fails, loses answers and is slow, a clock
 * that jumps, crashes and reboots, all drawn from one seed. At the end the faults stop, and every promise
 * must hold. With two providers, one fails and the other must not be affected.
 */

import assert from 'node:assert/strict'
import { type ErrorCode, isAgentPodError } from '../../src/core/error.ts'
import type { SandboxId, SnapshotId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { WhenOver } from '../../src/core/spec.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import type { FakeProvider, FaultyCall } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { EngineLives } from './engine-lives.ts'

const STEPS = 60
const FAULTY: readonly FaultyCall[] = [
  'create',
  'inspect',
  'list',
  'pause',
  'resume',
  'stop',
  'start',
  'snapshot',
  'unsnapshot',
  'destroy',
  'configure',
]
/** Errors that a caller must never get from a provider that works. */
const OUTAGES: readonly ErrorCode[] = ['unavailable', 'deadline_exceeded', 'internal', 'data_loss']
const NAMES = ['one', 'two']
const DAY_MS = 24 * 3_600_000
const LONGEST_TTL_MS = 40_000

/** The answers that callers got, which must hold. */
interface Promised {
  /** Sandboxes whose destroy was answered. */
  readonly gone: Set<SandboxId>
  /** Taken, with the marker that was in it. */
  readonly snapshots: Map<SnapshotId, string>
  /** Snapshots that a caller removed. */
  readonly removed: Set<SnapshotId>
  /** Every id that an answer gave. */
  readonly ids: Set<string>
}

export class Simulation {
  readonly #random: SeededRandom
  readonly #lives: EngineLives
  /** The provider that fails. */
  readonly #shaky: FakeProvider
  /** The provider that works, if there are two. */
  readonly #steady: FakeProvider | undefined
  /** Calls to the working provider that are not answered yet. */
  readonly #waiting = new Set<string>()
  /** Sandboxes whose processes were ended behind the provider's back. */
  readonly #unlucky = new Set<SandboxId>()
  /** Which provider each record named at first. */
  readonly #providers = new Map<string, string>()
  readonly #promised: Promised = { gone: new Set(), snapshots: new Map(), removed: new Set(), ids: new Set() }
  readonly #releases: (() => void)[] = []
  /** Releases for what an earlier server asked for. */
  readonly #late = new Set<() => void>()
  readonly #story: string[] = []
  #unexpected: unknown

  constructor(seed: number, o: { readonly hasTwo?: boolean } = {}) {
    this.#random = new SeededRandom(seed)
    const names = o.hasTwo ? NAMES : undefined
    this.#lives = new EngineLives({ random: this.#random, freezes: this.#random.below(5) > 0, names })
    const [one, two] = this.#lives.providers
    const isFirst = two === undefined || this.#random.below(2) === 0
    this.#shaky = (isFirst ? one : two) ?? this.#lives.provider
    this.#steady = isFirst ? two : one
    for (const provider of this.#lives.providers)
      provider.onCreate = ({ snapshot }) => this.#isOwn(provider, snapshot)
  }

  /** Resolves when the invariants hold; the error of a broken one tells what happened. */
  async run(): Promise<void> {
    using lives = this.#lives
    try {
      await lives.begin()
      for (let step = 0; step < STEPS; step++) {
        await this.#step()
        if (step % 6 === 0) this.#checkRecords()
      }
      await this.#heal()
      this.#check()
      await this.#clear()
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${this.#story.join('\n')}`, {
        cause: error,
      })
    }
  }

  async #step(): Promise<void> {
    const steps: readonly (() => Promise<void> | void)[] = [
      () => this.#create(),
      () => this.#create(),
      () => this.#restore(),
      () => this.#onSome('pause', (id) => this.#engine.sandboxes.pause(id, LOCAL)),
      () => this.#onSome('save', (id) => this.#engine.sandboxes.pause(id, LOCAL, { toDisk: true })),
      () => this.#onSome('resume', (id) => this.#engine.sandboxes.resume(id, LOCAL)),
      () => this.#onSome('stop', (id) => this.#engine.sandboxes.stop(id, LOCAL)),
      () => this.#onSome('start', (id) => this.#engine.sandboxes.start(id, LOCAL)),
      () => this.#onSome('reach', (id) => this.#engine.guests.wake(id, LOCAL)),
      () =>
        this.#onSome('extend', (id) =>
          this.#engine.sandboxes.extend(id, 1000 + this.#random.below(LONGEST_TTL_MS), LOCAL),
        ),
      () => this.#onSome('destroy', (id) => this.#destroy(id)),
      () => this.#onSome('snapshot', (id) => this.#snapshot(id)),
      () => this.#onSome('fork', (id) => this.#fork(id)),
      () => this.#removeSnapshot(),
      () => this.#wait(this.#random.below(5000)),
      () => (this.#random.below(30) === 0 ? this.#jump() : this.#wait(this.#random.below(20_000))),
      () => this.#fault(),
      () => this.#release(),
      () => this.#misfortune(),
      ...(this.#steady ? [() => this.#outage(), () => this.#recover()] : []),
    ]
    await steps[this.#random.below(steps.length)]?.()
    // Sometimes the next step comes while this one is still under way.
    if (this.#random.below(3) === 0) return
    await settled()
    await settled()
    // The clock does not move: no call to the working provider waits for the other one.
    assert.deepEqual([...this.#waiting], [], 'asked of the steady provider and not answered')
  }

  get #engine(): EngineLives['engine'] {
    return this.#lives.engine
  }

  /** `provider` is the provider of the work. */
  #ask(what: string, provider: string, work: () => Promise<unknown>): void {
    const n = this.#story.push(`${what} on ${provider}`) - 1
    const isSteady = provider === this.#steady?.name
    const key = `${n} ${what}`
    if (isSteady) this.#waiting.add(key)
    const tell = (how: string): void => {
      this.#waiting.delete(key)
      this.#story[n] += ` -> ${how}`
    }
    const lives = this.#lives.engine
    work().then(
      () => tell('ok'),
      (error) => {
        tell(isAgentPodError(error) ? error.reason : String(error))
        if (!this.#isSame(lives)) return
        // A caller of a dead server gets no answer; a running server answers only with our errors.
        const isOurs = isAgentPodError(error) && !(isSteady && OUTAGES.includes(error.code))
        if (!isOurs) this.#unexpected ??= error
      },
    )
  }

  #isSame(engine: unknown): boolean {
    try {
      return this.#lives.engine === engine
    } catch {
      return false
    }
  }

  #onSome(what: string, work: (id: SandboxId) => Promise<unknown>): void {
    const some = this.#pick(this.#engine.sandboxes.list({ labels: {}, all: false }, LOCAL))
    if (some) this.#ask(`${what} ${some.id}`, some.provider, () => work(some.id))
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from.length === 0 ? undefined : from[this.#random.below(from.length)]
  }

  #create(): void {
    const whenOver = this.#pick<WhenOver>(['destroy', 'pause', 'stop']) ?? 'destroy'
    const lifetime = { ttlMs: 1000 + this.#random.below(LONGEST_TTL_MS), whenOver }
    const provider = this.#steady && this.#pick([undefined, ...NAMES])
    this.#ask('create', provider ?? this.#lives.provider.name, async () => {
      const made = await this.#engine.sandboxes.create({ lifetime, provider }, LOCAL)
      assert.equal(made.provider, provider ?? this.#lives.provider.name)
      this.#made(made.id)
    })
  }

  /** I3: no id is given twice. */
  #made(id: SandboxId): void {
    assert.ok(!this.#promised.ids.has(id), `id ${id} was given twice`)
    this.#promised.ids.add(id)
  }

  #restore(): void {
    const snapshot = this.#pick(this.#engine.snapshots.list(LOCAL))
    if (!snapshot) return
    const marker = this.#promised.snapshots.get(snapshot.id)
    const provider = this.#steady && this.#pick([undefined, ...NAMES])
    this.#ask(`restore ${snapshot.id}`, snapshot.provider, async () => {
      const { id } = await this.#engine.sandboxes.create({ snapshot: snapshot.id, provider }, LOCAL)
      this.#made(id)
      assert.equal(this.#lives.stored.sandboxes.get(id)?.provider, snapshot.provider)
      // I4: what was acknowledged in the snapshot is in what was made from it.
      const found = this.#markerOf(id)
      if (marker !== undefined && this.#exists(id)) assert.equal(found, marker, `the files of ${id}`)
    })
  }

  #exists(id: SandboxId): boolean {
    return this.#lives.providers.some(({ existing }) => existing.includes(id))
  }

  /** A snapshot of one provider is never given to another. */
  #isOwn({ name }: FakeProvider, id: SnapshotId | undefined): void {
    const snapshot = this.#lives.stored.snapshots.all().find((one) => one.id === id)
    if (id !== undefined && snapshot?.provider !== name)
      this.#unexpected ??= new Error(`${id} of ${snapshot?.provider} was given to ${name}`)
  }

  async #destroy(id: SandboxId): Promise<void> {
    await this.#engine.sandboxes.destroy(id, LOCAL)
    this.#promised.gone.add(id)
  }

  async #snapshot(id: SandboxId): Promise<void> {
    this.#mark(id)
    const snapshot = await this.#engine.snapshots.create(id, {}, LOCAL)
    this.#made(snapshot.id as string as SandboxId)
    const marker = this.#markerOf(id)
    if (marker !== undefined && marker === this.#markerOf(id))
      this.#promised.snapshots.set(snapshot.id, marker)
  }

  async #fork(id: SandboxId): Promise<void> {
    for (const one of await this.#engine.sandboxes.fork(id, { count: 1 + this.#random.below(3) }, LOCAL)) {
      if ('sandbox' in one) this.#made(one.sandbox.id)
    }
  }

  #removeSnapshot(): void {
    const snapshot = this.#pick(this.#engine.snapshots.list(LOCAL))
    if (!snapshot) return
    // Once it is asked for, either outcome is right.
    this.#promised.removed.add(snapshot.id)
    this.#ask(`remove ${snapshot.id}`, snapshot.provider, () =>
      this.#engine.snapshots.remove(snapshot.id, LOCAL),
    )
  }

  /** A file that is written once in a sandbox's life. */
  #mark(id: SandboxId): void {
    const files = this.#insideOf(id)?.files
    if (files && !files.has('marker')) files.set('marker', Buffer.from(id))
  }

  #markerOf(id: SandboxId): string | undefined {
    return this.#insideOf(id)?.files.get('marker')?.toString()
  }

  #insideOf(id: SandboxId): ReturnType<FakeProvider['inside']> | undefined {
    return this.#lives.providers.find(({ existing }) => existing.includes(id))?.inside(id)
  }

  async #wait(ms: number): Promise<void> {
    this.#story.push(`wait ${ms}`)
    await this.#lives.clock.advance(ms)
  }

  async #jump(): Promise<void> {
    this.#story.push('the clock jumps a day')
    // No provider works on anything for as long.
    this.#releaseAll()
    await this.#lives.clock.jump(DAY_MS)
  }

  #fault(): void {
    const call = this.#pick(FAULTY) ?? 'create'
    const kind = this.#random.below(4)
    this.#story.push(`fault ${call} ${kind}`)
    if (kind === 0) this.#releases.push(this.#shaky.hang(call))
    else this.#shaky.fail(call, { times: 1 + this.#random.below(2), isAfter: kind === 1 })
  }

  /** It answers nothing, in one of two ways. */
  #outage(): void {
    const isHanging = this.#random.below(2) === 0
    this.#story.push(`outage ${isHanging ? 'hang' : 'fail'}`)
    for (const call of [...FAULTY, 'capabilities' as const]) {
      if (isHanging) this.#releases.push(this.#shaky.hang(call))
      else this.#shaky.fail(call)
    }
  }

  #releaseAll(): void {
    for (const release of [...this.#releases.splice(0), ...this.#late]) release()
    this.#late.clear()
  }

  #release(): void {
    this.#releases.pop()?.()
  }

  /** What failed or hung works again. */
  #recover(): void {
    this.#story.push('recover')
    this.#shaky.heal()
    this.#releaseAll()
  }

  async #misfortune(): Promise<void> {
    const kind = this.#random.below(4)
    const id = this.#pick(this.#shaky.existing)
    this.#story.push(`misfortune ${kind}`)
    if (kind === 0) await this.#crash()
    else if (kind === 1 && this.#random.below(3) === 0) {
      this.#kill()
      for (const one of this.#shaky.existing) this.#unlucky.add(one)
      this.#shaky.reboot()
      await this.#begin()
    } else if (id) {
      this.#unlucky.add(id)
      if (this.#steady && this.#random.below(3) === 0) this.#shaky.lose(id)
      else this.#shaky.exit(id, { oomKilled: kind === 3 })
    }
  }

  #kill(): void {
    this.#lives.kill()
    this.#waiting.clear()
  }

  async #crash(): Promise<void> {
    this.#kill()
    if (this.#random.below(2) === 0) await this.#lives.clock.advance(this.#random.below(30_000))
    await this.#begin()
  }

  /**
   * A server starts whatever its providers do. Calls of a dead server take effect within a minute, or never.
   */
  async #begin(): Promise<void> {
    for (const release of this.#releases.splice(0)) {
      this.#late.add(release)
      if (this.#steady) this.#lives.clock.after(this.#random.below(60_000), release)
      else release()
    }
    await this.#lives.begin()
  }

  async #heal(): Promise<void> {
    this.#story.push('heal')
    this.#shaky.heal()
    this.#releaseAll()
    await settled()
    if (this.#random.below(2) === 0) {
      this.#kill()
      await this.#begin()
    }
    // Long enough for several sweeps and short enough for few deadlines.
    await this.#lives.clock.advance(10_000)
    await settled()
  }

  /** What holds at every moment, whatever fails. */
  #checkRecords(): void {
    if (this.#unexpected) throw this.#unexpected
    const { stored, providers } = this.#lives
    for (const sandbox of stored.sandboxes.page({ limit: 1000 })) {
      const { id, provider, state, startedAt, endedAt, ending } = sandbox
      const first = this.#providers.get(id) ?? provider
      this.#providers.set(id, first)
      assert.equal(provider, first, `${id} changed its provider`)
      const isThere = providers.some((one) => one.name === provider && one.existing.includes(id))
      if (startedAt !== undefined && endedAt !== undefined)
        assert.ok(!isThere, `${id} is there and taken for gone`)
      if (state === 'failed' && ending?.reason === 'sandbox.lost')
        assert.ok(this.#unlucky.has(id), `${id} is taken for lost and was not`)
    }
  }

  /** Nothing is left of anything, on any provider. */
  async #clear(): Promise<void> {
    await this.#lives.engine.destroyAll()
    for (const { name, existing, kept } of this.#lives.providers)
      assert.deepEqual([existing, kept], [[], []], `left on ${name}`)
  }

  #check(): void {
    this.#checkRecords()
    for (const provider of this.#lives.providers) this.#checkProvider(provider)
    const kept = this.#lives.providers.flatMap((provider) => provider.kept)
    for (const [id] of this.#promised.snapshots)
      assert.ok(
        kept.includes(id) || this.#promised.removed.has(id),
        `I4: snapshot ${id} was promised and is gone`,
      )
  }

  #checkProvider(provider: FakeProvider): void {
    const { stored, clock } = this.#lives
    const isOurs = (record: { readonly provider: string }): boolean => record.provider === provider.name
    const living = stored.sandboxes.existing().filter(isOurs)
    const existing = new Set(provider.existing)
    for (const { id, state, deadlineAt, spec } of living) {
      assert.ok(['running', 'paused', 'stopped'].includes(state), `${id} stays ${state}`)
      assert.ok(existing.has(id), `I1: ${id} is ${state} and not there`)
      const isLate = state === 'running' && deadlineAt + 5000 < clock.now()
      assert.ok(!isLate, `I5: ${id} outlives its deadline (${spec.lifetime.whenOver})`)
      // The provider acts at the deadline, the record follows at the next sweep.
      const isJustOver = state === 'running' && deadlineAt <= clock.now()
      if (!isJustOver) assert.equal(provider.stateOf(id), state, `I1: ${id}`)
      assert.ok(!this.#promised.gone.has(id), `${id} was destroyed and lives`)
    }
    const ids = new Set(living.map(({ id }) => id))
    for (const id of existing) assert.ok(ids.has(id), `I2: ${id} is an orphan on ${provider.name}`)
    const snapshots = stored.snapshots.all().filter(isOurs)
    for (const { id, state } of snapshots) assert.equal(state, 'ready', `snapshot ${id}`)
    assert.deepEqual(new Set(snapshots.map(({ id }) => id)), new Set(provider.kept), 'I1, I2: snapshots')
  }
}
