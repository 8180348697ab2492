/** An engine on fakes that can be killed and begun again: the databases and the providers outlive it. */
import { tmpdir } from 'node:os'
import { parseOwner } from '../../src/core/id.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openDatabase } from '../../src/store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../../src/store/events.ts'
import { groupStore } from '../../src/store/groups.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../src/store/sandboxes.ts'
import { snapshotStore } from '../../src/store/snapshots.ts'
import { volumeStore } from '../../src/store/volumes.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { FakeClock, settled } from '../../src/testing/fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from '../../src/testing/fake-provider.ts'
import type { Clock } from '../../src/util/clock.ts'
import type { Random } from '../../src/util/random.ts'

export interface LivesOptions {
  readonly random: Random
  /** Names of the providers, the default one first; one of its own name when left out. */
  readonly names?: readonly string[] | undefined
  readonly freezes?: boolean | undefined
  /** What is said of the providers beside that, by name. */
  readonly options?: Readonly<Record<string, Partial<FakeProviderOptions>>> | undefined
  readonly tmpDir?: string | undefined
}

/** As podhost has it: server and guest come first. */
const GRACE_MS = 2000
/** As the engine has it. */
const OPEN_MS = 5000

export class EngineLives implements Disposable {
  readonly clock = new FakeClock()
  readonly providers: readonly FakeProvider[]
  readonly #random: Random
  readonly #tmpDir: string
  readonly #state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  readonly #events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  #life: { isOver: boolean; engine: Engine } | undefined

  constructor(o: LivesOptions) {
    this.#random = o.random
    this.#tmpDir = o.tmpDir ?? tmpdir()
    const { clock } = this
    const { names = [undefined], freezes } = o
    const common = { clock, freezes, savesMemory: freezes !== false, graceMs: GRACE_MS }
    this.providers = names.map(
      (name) => new FakeProvider({ ...common, name, ...(name !== undefined && o.options?.[name]) }),
    )
  }

  /** The default one. */
  get provider(): FakeProvider {
    const [first] = this.providers
    if (first) return first
    throw new Error('there is no provider')
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
      volumes: mortal(life, volumeStore(this.#state)),
      groups: mortal(life, groupStore(this.#state)),
      events: mortal(life, eventStore(this.#events)),
      providers: this.providers.map((provider) => this.#mortal(life, provider)),
      roots: { ensure: async () => ({ root: { kind: 'host' } }) },
      owner: parseOwner('lives-test'),
      tmpDir: this.#tmpDir,
      clock,
      random: this.#random,
      log: silentLog,
    })
    this.#life = Object.assign(life, { engine })
    await this.#opened(engine)
    return engine
  }

  /** Opened within the time that a start gives to providers that do not answer. */
  async #opened(engine: Engine): Promise<void> {
    let isOpen = false
    const opening = engine.open().then(() => {
      isOpen = true
    })
    await Promise.race([opening, settled()])
    if (!isOpen) await this.clock.advance(OPEN_MS)
    if (!isOpen) await Promise.race([opening, settled()])
    if (!isOpen) throw new Error(`the engine is not open after ${OPEN_MS} ms`)
  }

  /**
   * Like kill -9: from here on the engine reads and writes nothing. Its calls to the provider still take
   * effect.
   */
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

  #mortal(life: { isOver: boolean }, provider: FakeProvider): FakeProvider {
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

/** Every method throws once the life is over, also those of groups inside. */
function mortal<T extends object>(life: { readonly isOver: boolean }, part: T): T {
  const one = (method: unknown): unknown => {
    if (typeof method === 'object' && method !== null) return mortal(life, method)
    if (typeof method !== 'function') return method
    return (...args: unknown[]) => {
      if (life.isOver) throw new Error('this life is over')
      return method(...args)
    }
  }
  return Object.fromEntries(Object.entries(part).map(([name, method]) => [name, one(method)])) as T
}
