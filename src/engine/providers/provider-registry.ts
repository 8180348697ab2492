/**
 * The providers of one server, each behind the same guard. A record names its provider, and every operation
 * goes to that one.
 */
import type { CallOptions } from '../../core/call.ts'
import type { Isolation } from '../../core/capability.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Provider } from '../../core/provider.ts'
import { ignore, type Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { CALL, CREATE } from '../call.ts'
import { guardedProvider } from './guarded-provider.ts'

export interface ProviderRegistryParts {
  /** The first one is the default. */
  readonly providers: readonly Provider[]
  /** Makes another one the default. */
  readonly defaultProvider?: string | undefined
  readonly log: Log
  readonly clock: Clock
  /** Remembers which providers were ever used; without it nothing is remembered. */
  readonly uses?: UseStore | undefined
}

/** Values by key, kept across restarts of the server. */
export interface UseStore {
  meta(key: string): string | undefined
  setMeta(key: string, value: string): void
}

const usedKey = (name: string): string => `provider-used:${name}`

/** How long a provider may still work on an abandoned call: twice the longest create. */
const SUSPICION_MS = 2 * CREATE.timeoutMs

/** The optional groups of a provider, with the words for error messages. */
const GROUPS = {
  pausing: 'pause a sandbox',
  stopping: 'stop a sandbox and keep its files',
  snapshots: 'take snapshots',
  layers: 'use file-system layers',
  images: 'run container images',
  host: "use this machine's tools",
  volumes: 'keep volumes',
} as const
export type OptionalGroup = keyof typeof GROUPS

type With<G extends OptionalGroup> = NonNullable<Provider[G]>

export class ProviderRegistry {
  readonly #byName = new Map<string, Provider>()
  readonly #used = new Set<Provider>()
  /** Providers that may have sandboxes without a record, and until when more may appear. */
  readonly #suspicions = new Map<string, number>()
  readonly #clock: Clock
  readonly #log: Log
  readonly #uses: UseStore | undefined
  readonly #default: Provider
  /** Called once per provider, on the first use of it by this server. */
  onUsed: (provider: Provider) => void = () => undefined

  constructor(parts: ProviderRegistryParts) {
    this.#clock = parts.clock
    this.#log = parts.log
    this.#uses = parts.uses
    for (const inner of parts.providers) {
      const { name } = inner
      if (this.#byName.has(name)) throw new Error(`two providers are called ${name}`)
      this.#byName.set(name, guardedProvider(inner, { ...parts, onLeftover: () => this.suspect(name) }))
    }
    const first = parts.providers[0]
    if (!first) throw new Error('a server needs a provider')
    this.#default = this.named(parts.defaultProvider ?? first.name)
  }

  /** The provider of requests that name none. */
  get default(): Provider {
    return this.#default
  }

  get all(): readonly Provider[] {
    return [...this.#byName.values()]
  }

  /** The providers that this server has used. The others are left alone. */
  get used(): readonly Provider[] {
    return [...this.#used]
  }

  named(name: string): Provider {
    const found = this.#byName.get(name)
    if (found) return found
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'provider.unknown',
      message: `unknown provider ${name}`,
      hint: `this server has ${[...this.#byName.keys()].join(', ')}; see \`agentpod provider ls\``,
    })
  }

  /** The provider of a record. `unavailable` if the server was started without it. */
  of({ provider }: { readonly provider: string }): Provider {
    const found = this.#byName.get(provider)
    if (found) return this.use(found)
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'provider.absent',
      message: `this server has no provider ${provider}`,
      hint: 'start the server with that provider, as it was when the sandbox was created',
    })
  }

  has({ provider }: { readonly provider: string }): boolean {
    return this.#byName.has(provider)
  }

  use(provider: Provider): Provider {
    if (!this.#used.has(provider)) {
      this.#used.add(provider)
      // An earlier server may have died during a create.
      this.suspect(provider.name)
      this.#remember(provider)
      this.onUsed(provider)
    }
    return provider
  }

  #remember({ name }: Provider): void {
    try {
      if (this.#uses?.meta(usedKey(name)) === undefined)
        this.#uses?.setMeta(usedKey(name), String(this.#clock.now()))
    } catch (error) {
      // A full disk must not prevent destroying.
      ignore(this.#log, error, `the first use of ${name} was not stored`)
    }
  }

  /** The names of the providers that this or an earlier server used: they may hold something. */
  get everUsed(): readonly string[] {
    const isUsed = (provider: Provider): boolean =>
      this.#used.has(provider) || this.#uses?.meta(usedKey(provider.name)) !== undefined
    return this.all.filter(isUsed).map(({ name }) => name)
  }

  /** Notes that a provider may have sandboxes without a record, now or soon. Sweeps look for them. */
  suspect(name: string): void {
    this.#suspicions.set(name, this.#clock.now() + SUSPICION_MS)
  }

  /** `fresh`: more may still appear. */
  suspicionOf({ name }: Provider): 'none' | 'fresh' | 'old' {
    const until = this.#suspicions.get(name)
    if (until === undefined) return 'none'
    return until > this.#clock.now() ? 'fresh' : 'old'
  }

  /** Called after a sweep that started at `at` and left nothing to repair. */
  clearSuspicion({ name }: Provider, at: number): void {
    if ((this.#suspicions.get(name) ?? 0) <= at) this.#suspicions.delete(name)
  }

  /**
   * An optional group of the record's provider. `unsupported`, before anything changes, if the provider lacks
   * it.
   */
  group<G extends OptionalGroup>(record: { readonly provider: string }, group: G): With<G> {
    return this.groupOf(this.of(record), group)
  }

  groupOf<G extends OptionalGroup>(provider: Provider, group: G): With<G> {
    const found = provider[group]
    if (found) return found as With<G>
    throw this.#lacks(provider, group)
  }

  /**
   * Asked each time, because the provider caches it and notices changes. `unavailable` if it does not answer.
   */
  async isolationOf(provider: Provider, o: CallOptions = CALL): Promise<Isolation> {
    return (await provider.capabilities(o)).isolation
  }

  /** Closes every provider, even if closing another one fails. */
  close(): void {
    for (const provider of this.#byName.values()) {
      try {
        provider.close()
      } catch (error) {
        ignore(this.#log, error, `${provider.name} was not closed`)
      }
    }
  }

  #lacks(provider: Provider, group: OptionalGroup): AgentPodError {
    const others = this.all.filter((one) => one[group]).map(({ name }) => name)
    return new AgentPodError({
      code: 'unsupported',
      reason: REASONS[group],
      message: `the provider ${provider.name} cannot ${GROUPS[group]}`,
      hint:
        others.length > 0
          ? `these providers can: ${others.join(', ')}; choose one with \`--provider\``
          : 'no provider of this server can',
    })
  }
}

const REASONS: Record<OptionalGroup, string> = {
  pausing: 'pause.unsupported',
  stopping: 'stop.unsupported',
  snapshots: 'snapshot.unsupported',
  layers: 'provider.layers',
  images: 'provider.images',
  host: 'provider.host',
  volumes: 'volume.unsupported',
}
