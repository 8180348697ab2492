/** An engine on fakes that can be killed and begun again: the databases and the provider outlive it. */
import { tmpdir } from 'node:os'
import { parseOwner } from '../../src/core/id.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openDatabase } from '../../src/store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../../src/store/events.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../src/store/sandboxes.ts'
import { snapshotStore } from '../../src/store/snapshots.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { FakeClock } from '../../src/testing/fake-clock.ts'
import { FakeProvider } from '../../src/testing/fake-provider.ts'
import type { Clock } from '../../src/util/clock.ts'
import type { Random } from '../../src/util/random.ts'

export interface LivesOptions {
  readonly random: Random
  readonly freezes?: boolean | undefined
  readonly tmpDir?: string | undefined
}

/** As podhost has it: server and guest come first. */
const GRACE_MS = 2000

export class EngineLives implements Disposable {
  readonly clock = new FakeClock()
  readonly provider: FakeProvider
  readonly #random: Random
  readonly #tmpDir: string
  readonly #state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  readonly #events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  #life: { isOver: boolean; engine: Engine } | undefined

  constructor(o: LivesOptions) {
    this.#random = o.random
    this.#tmpDir = o.tmpDir ?? tmpdir()
    this.provider = new FakeProvider({
      clock: this.clock,
      freezes: o.freezes,
      graceMs: GRACE_MS,
    })
  }

  get engine(): Engine {
    if (this.#life) return this.#life.engine
    throw new Error('no engine lives')
  }

  /** What is stored, read past the engine. */
  get stored(): { sandboxes: ReturnType<typeof sandboxStore>; snapshots: ReturnType<typeof snapshotStore> } {
    return { sandboxes: sandboxStore(this.#state), snapshots: snapshotStore(this.#state) }
  }

  async begin(): Promise<Engine> {
    const life = { isOver: false }
    const clock: Clock = {
      now: () => this.clock.now(),
      after: (ms, fn) => this.clock.after(ms, () => (life.isOver ? undefined : fn())),
    }
    const engine = new Engine({
      sandboxes: mortal(life, sandboxStore(this.#state)),
      snapshots: mortal(life, snapshotStore(this.#state)),
      events: mortal(life, eventStore(this.#events)),
      providers: [this.#provider(life, this.provider)],
      roots: { ensure: async () => ({ root: { kind: 'host' } }) },
      owner: parseOwner('lives-test'),
      tmpDir: this.#tmpDir,
      clock,
      random: this.#random,
      log: silentLog,
    })
    this.#life = Object.assign(life, { engine })
    await engine.open()
    return engine
  }

  /** As kill -9: from here on the engine reads and writes nothing. What it had asked of the provider still happens. */
  kill(): void {
    if (!this.#life) return
    this.#life.isOver = true
    this.#life.engine.close()
    this.#life = undefined
  }

  [Symbol.dispose](): void {
    this.kill()
    this.#state.close()
    this.#events.close()
  }

  #provider(life: { isOver: boolean }, provider: FakeProvider): FakeProvider {
    return new Proxy(provider, {
      get: (target, key) => {
        const value = Reflect.get(target, key, target)
        if (typeof value === 'object') return mortal(life, value)
        // Who is killed hears nothing any more, and says nothing.
        if (typeof value !== 'function' || key === 'close') return value?.bind?.(target) ?? value
        return (...args: unknown[]) => {
          if (life.isOver) throw new Error('this life is over')
          return value.apply(target, args)
        }
      },
    })
  }
}

/** Every method throws once the life is over. */
function mortal<T extends object>(life: { readonly isOver: boolean }, part: T): T {
  return Object.fromEntries(
    Object.entries(part).map(([name, method]) => [
      name,
      (...args: unknown[]) => {
        if (life.isOver) throw new Error('this life is over')
        return method(...args)
      },
    ]),
  ) as T
}
