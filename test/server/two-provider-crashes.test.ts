/**
 * An engine with two providers that is killed, or whose step fails, at every named step of every operation,
 * and that is started again while one of the providers does not answer. `test/crash` kills real servers at
 * the same steps.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import type { FakeProvider, FaultyCall } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { FAILPOINTS, type Failpoint, onFailpoint } from '../../src/util/failpoint.ts'
import { EngineLives } from '../support/engine-lives.ts'

interface Scenario {
  readonly points: RegExp
  readonly before?: (engine: Engine, id: SandboxId) => Promise<unknown>
  readonly passes: (engine: Engine, id: SandboxId, provider: string) => Promise<unknown>
  /** Whether the sandbox may be gone afterwards. */
  readonly ends?: boolean
}

const SCENARIOS: readonly Scenario[] = [
  { points: /^create\./, passes: (engine, _, provider) => engine.sandboxes.create({ provider }, LOCAL) },
  { points: /^pause\./, passes: (engine, id) => engine.sandboxes.pause(id, LOCAL) },
  {
    points: /^resume\./,
    before: (engine, id) => engine.sandboxes.pause(id, LOCAL),
    passes: (engine, id) => engine.sandboxes.resume(id, LOCAL),
  },
  {
    points: /^disk\.saved/,
    before: (engine, id) => engine.sandboxes.pause(id, LOCAL),
    passes: (engine, id) => engine.sandboxes.pause(id, LOCAL, { toDisk: true }),
  },
  {
    points: /^disk\.restored/,
    before: (engine, id) => engine.sandboxes.pause(id, LOCAL, { toDisk: true }),
    passes: (engine, id) => engine.sandboxes.resume(id, LOCAL),
  },
  { points: /^stop\./, passes: (engine, id) => engine.sandboxes.stop(id, LOCAL) },
  {
    points: /^start\./,
    before: (engine, id) => engine.sandboxes.stop(id, LOCAL),
    passes: (engine, id) => engine.sandboxes.start(id, LOCAL),
  },
  {
    points: /^snapshot\.unlisted/,
    before: (engine, id) => engine.snapshots.create(id, { name: 'gone' }, LOCAL),
    passes: (engine) => engine.snapshots.remove('gone', LOCAL),
  },
  { points: /^snapshot\./, passes: (engine, id) => engine.snapshots.create(id, {}, LOCAL) },
  { points: /^fork\./, passes: (engine, id) => engine.sandboxes.fork(id, { count: 2 }, LOCAL) },
  { points: /^destroy\./, passes: (engine, id) => engine.sandboxes.destroy(id, LOCAL), ends: true },
]

const CALLS: readonly FaultyCall[] = [
  'capabilities',
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
const SILENT = ['nobody', 'its provider', 'the other provider'] as const
const ERRORS = ['ENOSPC', 'EIO', 'EMFILE']
const SWEEP_MS = 3000

class Stage implements Disposable {
  readonly lives = new EngineLives({ random: new SeededRandom(7), names: ['one', 'two'] })
  readonly #own: string
  readonly #scenario: Scenario
  readonly #point: Failpoint

  constructor(point: Failpoint, own: string) {
    const scenario = SCENARIOS.find(({ points }) => points.test(point))
    assert.ok(scenario, `a scenario for ${point}`)
    this.#scenario = scenario
    this.#point = point
    this.#own = own
  }

  [Symbol.dispose](): void {
    this.lives[Symbol.dispose]()
  }

  provider(isOwn: boolean): FakeProvider {
    const found = this.lives.providers.find(({ name }) => (name === this.#own) === isOwn)
    assert.ok(found)
    return found
  }

  /**
   * Makes the call that passes the step at which `happens` happens. Returns the sandbox and one on the other
   * provider.
   */
  async pass(happens: () => never): Promise<{ subject: SandboxId; other: SandboxId }> {
    const engine = await this.lives.begin()
    const { id: subject } = await engine.sandboxes.create({ provider: this.#own }, LOCAL)
    const { id: other } = await engine.sandboxes.create({ provider: this.provider(false).name }, LOCAL)
    this.provider(true).inside(subject).files.set('marker', Buffer.from('kept'))
    await this.#scenario.before?.(engine, subject)
    let isPassed = false
    onFailpoint(this.#point, () => {
      isPassed = true
      return happens()
    })
    const passing = this.#scenario.passes(engine, subject, this.#own)
    await passing.catch(() => undefined)
    assert.ok(isPassed, `the control: ${this.#point} was passed`)
    return { subject, other }
  }

  /** What must be true when everything answers again. */
  async isSound(subject: SandboxId): Promise<void> {
    await this.lives.clock.advance(4 * SWEEP_MS)
    for (const provider of this.lives.providers) this.#agrees(provider)
    const { existing } = this.provider(true)
    if (!this.#scenario.ends) assert.ok(existing.includes(subject), 'it is there')
    if (existing.includes(subject))
      assert.equal(this.provider(true).inside(subject).files.get('marker')?.toString(), 'kept')
    await this.lives.engine.destroyAll()
    for (const { existing: left, kept } of this.lives.providers) assert.deepEqual([left, kept], [[], []])
  }

  /** I1, I2: records and what there is agree, and nothing is half done. */
  #agrees(provider: FakeProvider): void {
    const { stored } = this.lives
    const isOurs = (record: { readonly provider: string }): boolean => record.provider === provider.name
    const living = stored.sandboxes.existing().filter(isOurs)
    for (const { id, state } of living) {
      assert.ok(['running', 'paused', 'stopped'].includes(state), `${id} stays ${state}`)
      assert.equal(provider.stateOf(id), state, id)
    }
    assert.deepEqual(new Set(provider.existing), new Set(living.map(({ id }) => id)))
    const snapshots = stored.snapshots.all().filter(isOurs)
    for (const { id, state } of snapshots) assert.equal(state, 'ready', id)
    assert.deepEqual(new Set(provider.kept), new Set(snapshots.map(({ id }) => id)))
  }
}

/** Makes every call hang; returns the function that releases them. */
function silence(provider: FakeProvider): () => void {
  const releases = CALLS.map((call) => provider.hang(call))
  return () => {
    for (const release of releases) release()
  }
}

async function crashes(point: Failpoint, own: string, silent: (typeof SILENT)[number]): Promise<void> {
  using stage = new Stage(point, own)
  const { lives } = stage
  const { subject, other } = await stage.pass(() => {
    lives.kill()
    throw new Error('killed')
  })
  const before = new Set(stage.provider(true).existing)
  const release = silent === 'nobody' ? undefined : silence(stage.provider(silent === 'its provider'))
  const engine = await lives.begin()
  if (silent === 'its provider') {
    await lives.clock.advance(4 * SWEEP_MS)
    // Nothing of the silent one is touched or taken for gone, and the other one is as always.
    assert.deepEqual(new Set(stage.provider(true).existing), before)
    if (before.has(subject)) assert.equal(engine.sandboxes.get(subject, LOCAL).endedAt, undefined)
    assert.ok(engine.guests.connection(other, LOCAL))
    const made = await Promise.race([
      engine.sandboxes.create({ provider: stage.provider(false).name }, LOCAL),
      settled(),
    ])
    assert.ok(made, 'the other provider makes sandboxes at once')
    assert.equal((await engine.sandboxes.destroy(made.id, LOCAL)).state, 'destroyed')
  }
  if (silent === 'the other provider') {
    await lives.clock.advance(4 * SWEEP_MS)
    assert.equal(engine.sandboxes.get(other, LOCAL).state, 'running')
  }
  release?.()
  await stage.isSound(subject)
}

async function fails(point: Failpoint, own: string, code: string): Promise<void> {
  using stage = new Stage(point, own)
  const release = silence.bind(undefined, stage.provider(false))
  let hanging = (): void => undefined
  const { subject } = await stage.pass(() => {
    hanging = release()
    throw Object.assign(new Error(`${code}: failpoint ${point}`), { code })
  })
  await stage.lives.clock.advance(4 * SWEEP_MS)
  hanging()
  await stage.isSound(subject)
}

for (const point of FAILPOINTS.filter((one) => SCENARIOS.some(({ points }) => points.test(one)))) {
  for (const own of ['one', 'two']) {
    for (const silent of SILENT)
      test(`an engine killed at ${point} on ${own} recovers while ${silent} is silent`, () =>
        crashes(point, own, silent))
    for (const code of ERRORS)
      test(`${code} at ${point} on ${own} leaves nothing half done while the other provider is silent`, () =>
        fails(point, own, code))
  }
}
