/**
 * A server's life in a hurry: many callers at once, a provider that fails, loses answers and dawdles, a clock that jumps, crashes and
 * reboots, all drawn from one seed. At the end everything is healed, and what was promised must be true.
 */
import assert from 'node:assert/strict'
import { isAgentPodError } from '../../src/core/error.ts'
import type { SandboxId, SnapshotId } from '../../src/core/id.ts'
import type { WhenOver } from '../../src/core/spec.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import type { FaultyCall } from '../../src/testing/fake-provider.ts'
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
const DAY_MS = 24 * 3_600_000
const LONGEST_TTL_MS = 40_000

/** What callers were told, which is what must hold. */
interface Promised {
  /** Destroyed, so the answer said. */
  readonly gone: Set<SandboxId>
  /** Taken, with the marker that was in it. */
  readonly snapshots: Map<SnapshotId, string>
  /** Snapshots that somebody wanted removed. */
  readonly removed: Set<SnapshotId>
  /** Every id that an answer gave. */
  readonly ids: Set<string>
}

export class Simulation {
  readonly #random: SeededRandom
  readonly #lives: EngineLives
  readonly #promised: Promised = { gone: new Set(), snapshots: new Map(), removed: new Set(), ids: new Set() }
  readonly #releases: (() => void)[] = []
  readonly #story: string[] = []
  #unexpected: unknown

  constructor(seed: number) {
    this.#random = new SeededRandom(seed)
    this.#lives = new EngineLives({ random: this.#random, freezes: this.#random.below(5) > 0 })
  }

  /** Resolves when the invariants hold; the error of one that does not tells the story. */
  async run(): Promise<void> {
    using lives = this.#lives
    try {
      await lives.begin()
      for (let step = 0; step < STEPS; step++) await this.#step()
      await this.#heal()
      this.#check()
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${this.#story.join('\n')}`, {
        cause: error,
      })
    }
  }

  async #step(): Promise<void> {
    const steps: readonly (() => Promise<void> | void)[] = [
      () => this.#ask('create', () => this.#create()),
      () => this.#ask('create', () => this.#create()),
      () => this.#ask('restore', () => this.#restore()),
      () => this.#onSome('pause', (id) => this.#engine.pause(id)),
      () => this.#onSome('resume', (id) => this.#engine.resume(id)),
      () => this.#onSome('stop', (id) => this.#engine.stop(id)),
      () => this.#onSome('start', (id) => this.#engine.start(id)),
      () => this.#onSome('reach', (id) => this.#engine.reach(id)),
      () =>
        this.#onSome('extend', (id) => this.#engine.extend(id, 1000 + this.#random.below(LONGEST_TTL_MS))),
      () => this.#onSome('destroy', (id) => this.#destroy(id)),
      () => this.#onSome('snapshot', (id) => this.#snapshot(id)),
      () => this.#onSome('fork', (id) => this.#fork(id)),
      () => this.#ask('remove', () => this.#removeSnapshot()),
      () => this.#wait(this.#random.below(5000)),
      () => (this.#random.below(30) === 0 ? this.#jump() : this.#wait(this.#random.below(20_000))),
      () => this.#fault(),
      () => this.#release(),
      () => this.#misfortune(),
    ]
    await steps[this.#random.below(steps.length)]?.()
    // Sometimes the next step comes while this one is still under way.
    if (this.#random.below(3) > 0) await settled()
  }

  get #engine(): EngineLives['engine'] {
    return this.#lives.engine
  }

  #ask(what: string, work: () => Promise<unknown>): void {
    this.#story.push(what)
    const n = this.#story.length - 1
    const tell = (how: string): void => {
      this.#story[n] += ` -> ${how}`
    }
    const lives = this.#lives.engine
    work().then(
      () => tell('ok'),
      (error) => {
        tell(isAgentPodError(error) ? error.reason : String(error))
        // A caller of a server that died hears nothing; from one that lives, only errors of ours.
        if (!isAgentPodError(error) && this.#isSame(lives)) this.#unexpected ??= error
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
    const id = this.#pick(this.#engine.list({ labels: {}, all: false }).map((sandbox) => sandbox.id))
    if (id) this.#ask(`${what} ${id}`, () => work(id))
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from.length === 0 ? undefined : from[this.#random.below(from.length)]
  }

  async #create(): Promise<void> {
    const whenOver = this.#pick<WhenOver>(['destroy', 'pause', 'stop']) ?? 'destroy'
    const lifetime = { ttlMs: 1000 + this.#random.below(LONGEST_TTL_MS), whenOver }
    this.#made((await this.#engine.create({ lifetime })).id)
  }

  /** I3: no id is given twice. */
  #made(id: SandboxId): void {
    assert.ok(!this.#promised.ids.has(id), `id ${id} was given twice`)
    this.#promised.ids.add(id)
  }

  async #restore(): Promise<void> {
    const snapshot = this.#pick(this.#engine.snapshots())
    if (!snapshot) return
    const marker = this.#promised.snapshots.get(snapshot.id)
    const { id } = await this.#engine.create({ snapshot: snapshot.id })
    this.#made(id)
    // I4: what was acknowledged in the snapshot is in what was made from it.
    const isThere = this.#lives.provider.existing.includes(id)
    if (marker !== undefined && isThere) assert.equal(this.#markerOf(id), marker, `the files of ${id}`)
  }

  async #destroy(id: SandboxId): Promise<void> {
    await this.#engine.destroy(id)
    this.#promised.gone.add(id)
  }

  async #snapshot(id: SandboxId): Promise<void> {
    this.#mark(id)
    const snapshot = await this.#engine.snapshot(id, {})
    this.#made(snapshot.id as string as SandboxId)
    const marker = this.#markerOf(id)
    if (marker !== undefined && marker === this.#markerOf(id))
      this.#promised.snapshots.set(snapshot.id, marker)
  }

  async #fork(id: SandboxId): Promise<void> {
    for (const one of await this.#engine.fork(id, { count: 1 + this.#random.below(3) })) {
      if ('sandbox' in one) this.#made(one.sandbox.id)
    }
  }

  async #removeSnapshot(): Promise<void> {
    const snapshot = this.#pick(this.#engine.snapshots())
    if (!snapshot) return
    // Once it is asked for, either outcome is right.
    this.#promised.removed.add(snapshot.id)
    await this.#engine.removeSnapshot(snapshot.id)
  }

  /** A file that is written once in a sandbox's life. */
  #mark(id: SandboxId): void {
    try {
      const { files } = this.#lives.provider.inside(id)
      if (!files.has('marker')) files.set('marker', Buffer.from(id))
    } catch {
      // It is not there any more, or not yet.
    }
  }

  #markerOf(id: SandboxId): string | undefined {
    try {
      return this.#lives.provider.inside(id).files.get('marker')?.toString()
    } catch {
      return undefined
    }
  }

  async #wait(ms: number): Promise<void> {
    this.#story.push(`wait ${ms}`)
    await this.#lives.clock.advance(ms)
  }

  async #jump(): Promise<void> {
    this.#story.push('the clock jumps a day')
    await this.#lives.clock.jump(DAY_MS)
  }

  #fault(): void {
    const call = this.#pick(FAULTY) ?? 'create'
    const kind = this.#random.below(4)
    this.#story.push(`fault ${call} ${kind}`)
    if (kind === 0) this.#releases.push(this.#lives.provider.hang(call))
    else this.#lives.provider.fail(call, { times: 1 + this.#random.below(2), isAfter: kind === 1 })
  }

  #release(): void {
    this.#releases.pop()?.()
  }

  async #misfortune(): Promise<void> {
    const kind = this.#random.below(4)
    const id = this.#pick(this.#lives.provider.existing)
    this.#story.push(`misfortune ${kind}`)
    if (kind === 0) await this.#crash()
    else if (kind === 1 && this.#random.below(3) === 0) {
      this.#lives.kill()
      this.#lives.provider.reboot()
      await this.#begin()
    } else if (id) this.#lives.provider.exit(id, { oomKilled: kind === 3 })
  }

  async #crash(): Promise<void> {
    this.#lives.kill()
    if (this.#random.below(2) === 0) await this.#lives.clock.advance(this.#random.below(30_000))
    await this.#begin()
  }

  /** A server whose provider is out at its start does not start; somebody tries again. */
  async #begin(): Promise<void> {
    for (const release of this.#releases.splice(0)) release()
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        await this.#lives.begin()
        return
      } catch {
        this.#lives.kill()
      }
    }
    this.#lives.provider.heal()
    await this.#lives.begin()
  }

  async #heal(): Promise<void> {
    this.#story.push('heal')
    this.#lives.provider.heal()
    for (const release of this.#releases.splice(0)) release()
    await settled()
    if (this.#random.below(2) === 0) {
      this.#lives.kill()
      await this.#begin()
    }
    // Long enough for several sweeps and short enough for few deadlines.
    await this.#lives.clock.advance(10_000)
    await settled()
  }

  #check(): void {
    if (this.#unexpected) throw this.#unexpected
    const { provider, stored, clock } = this.#lives
    const living = stored.sandboxes.living()
    const existing = new Set(provider.existing)
    for (const sandbox of living) {
      const { id, state, deadlineAt, spec } = sandbox
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
    for (const id of existing) assert.ok(ids.has(id), `I2: ${id} is an orphan`)
    const snapshots = stored.snapshots.all()
    for (const { id, state } of snapshots) assert.equal(state, 'ready', `snapshot ${id}`)
    assert.deepEqual(new Set(snapshots.map(({ id }) => id)), new Set(provider.kept), 'I1, I2: snapshots')
    for (const [id] of this.#promised.snapshots)
      assert.ok(
        provider.kept.includes(id) || this.#promised.removed.has(id),
        `I4: snapshot ${id} was promised and is gone`,
      )
  }
}
