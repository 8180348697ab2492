/** The providers of one server, each behind the same guard. A record names its provider, and every operation asks that one. */
import type { CallOptions } from '../core/call.ts'
import type { Isolation } from '../core/capability.ts'
import { AgentPodError } from '../core/error.ts'
import type { Provider } from '../core/provider.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { CALL, CREATE } from './call.ts'
import { guardedProvider } from './guarded-provider.ts'

export interface ProvidersParts {
  /** The first one is taken where nobody names one. */
  readonly providers: readonly Provider[]
  /** Another one to take then. */
  readonly defaultProvider?: string | undefined
  readonly log: Log
  readonly clock: Clock
  /** Where it is remembered which providers were ever used; nowhere when left out. */
  readonly uses?: UseStore | undefined
}

/** Values by key that outlive the server. */
export interface UseStore {
  meta(key: string): string | undefined
  setMeta(key: string, value: string): void
}

const usedKey = (name: string): string => `provider-used:${name}`

/** How long a provider may still work on something that nobody waits for any more: twice as long as a create takes at most. */
const DOUBT_MS = 2 * CREATE.timeoutMs

/** What a provider may lack, and how a sentence says it. */
const GROUPS = {
  pausing: 'pause a sandbox',
  stopping: 'stop a sandbox and keep its files',
  snapshots: 'take snapshots',
  layers: 'take file-system layers',
  images: 'run container images',
  host: "run on this machine's tools",
} as const
export type Group = keyof typeof GROUPS

type With<G extends Group> = NonNullable<Provider[G]>

export class Providers {
  readonly #byName = new Map<string, Provider>()
  readonly #used = new Set<Provider>()
  /** Providers on which something may be that no record tells of, and until when more may come. */
  readonly #doubts = new Map<string, number>()
  readonly #clock: Clock
  readonly #log: Log
  readonly #uses: UseStore | undefined
  readonly #default: Provider
  /** Told once of each provider, when the first sandbox or snapshot of it is met. */
  onUsed: (provider: Provider) => void = () => undefined

  constructor(parts: ProvidersParts) {
    this.#clock = parts.clock
    this.#log = parts.log
    this.#uses = parts.uses
    for (const inner of parts.providers) {
      const { name } = inner
      if (this.#byName.has(name)) throw new Error(`two providers are called ${name}`)
      this.#byName.set(name, guardedProvider(inner, { ...parts, onLeft: () => this.doubt(name) }))
    }
    const first = parts.providers[0]
    if (!first) throw new Error('a server needs a provider')
    this.#default = this.named(parts.defaultProvider ?? first.name)
  }

  /** The one that is taken where nobody names one. */
  get default(): Provider {
    return this.#default
  }

  get all(): readonly Provider[] {
    return [...this.#byName.values()]
  }

  /** Those that a sandbox or a snapshot was met of in this life of the server. The others are left in peace. */
  get used(): readonly Provider[] {
    return [...this.#used]
  }

  named(name: string): Provider {
    const found = this.#byName.get(name)
    if (found) return found
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'provider.unknown',
      message: `there is no provider ${name}`,
      hint: `providers here are ${[...this.#byName.keys()].join(', ')}; \`agentpod provider ls\` tells more`,
    })
  }

  /** The provider of a record. One that this server was started without is as silent as one that does not answer. */
  of({ provider }: { readonly provider: string }): Provider {
    const found = this.#byName.get(provider)
    if (found) return this.use(found)
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'provider.absent',
      message: `this server has no provider ${provider}`,
      hint: 'start the server with that provider, as when the sandbox was made',
    })
  }

  has({ provider }: { readonly provider: string }): boolean {
    return this.#byName.has(provider)
  }

  use(provider: Provider): Provider {
    if (!this.#used.has(provider)) {
      this.#used.add(provider)
      // An earlier life of the server may have died with a create under way.
      this.doubt(provider.name)
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
      // A full disk must not keep anybody from destroying.
      ignore(this.#log, error, `it is not remembered that ${name} was used`)
    }
  }

  /** Names of those that were used in this life of the server or an earlier one: they may keep something. */
  get everUsed(): readonly string[] {
    const isUsed = (provider: Provider): boolean =>
      this.#used.has(provider) || this.#uses?.meta(usedKey(provider.name)) !== undefined
    return this.all.filter(isUsed).map(({ name }) => name)
  }

  /** Something may be on a provider, now or in a moment, that no record tells of: sweeps look for it. */
  doubt(name: string): void {
    this.#doubts.set(name, this.#clock.now() + DOUBT_MS)
  }

  /** `fresh`: more may come. */
  doubtOf({ name }: Provider): 'none' | 'fresh' | 'old' {
    const until = this.#doubts.get(name)
    if (until === undefined) return 'none'
    return until > this.#clock.now() ? 'fresh' : 'old'
  }

  /** A sweep that was begun at `at` has found nothing that is left. */
  settle({ name }: Provider, at: number): void {
    if ((this.#doubts.get(name) ?? 0) <= at) this.#doubts.delete(name)
  }

  /** A group of the record's provider; `unsupported`, before anything is touched, where it lacks it. */
  group<G extends Group>(record: { readonly provider: string }, group: G): With<G> {
    return this.groupOf(this.of(record), group)
  }

  groupOf<G extends Group>(provider: Provider, group: G): With<G> {
    const found = provider[group]
    if (found) return found as With<G>
    throw this.#lacks(provider, group)
  }

  /** Asked each time: a provider remembers it, and knows when what stands behind it has changed. `unavailable` where it does not answer. */
  async isolationOf(provider: Provider, o: CallOptions = CALL): Promise<Isolation> {
    return (await provider.capabilities(o)).isolation
  }

  /** Every one, whatever another says. */
  close(): void {
    for (const provider of this.#byName.values()) {
      try {
        provider.close()
      } catch (error) {
        ignore(this.#log, error, `${provider.name} was not closed`)
      }
    }
  }

  #lacks(provider: Provider, group: Group): AgentPodError {
    const others = this.all.filter((one) => one[group]).map(({ name }) => name)
    return new AgentPodError({
      code: 'unsupported',
      reason: REASONS[group],
      message: `${provider.name} cannot ${GROUPS[group]}`,
      hint: others.length > 0 ? `${others.join(', ')} can: see \`--provider\`` : 'no provider here can',
    })
  }
}

const REASONS: Record<Group, string> = {
  pausing: 'pause.unsupported',
  stopping: 'stop.unsupported',
  snapshots: 'snapshot.unsupported',
  layers: 'provider.layers',
  images: 'provider.images',
  host: 'provider.host',
}
