/** The providers of one server, each behind the same guard. A record names its provider, and every operation asks that one. */
import type { Isolation } from '../core/capability.ts'
import { AgentPodError } from '../core/error.ts'
import type { Provider } from '../core/provider.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { CALL } from './call.ts'
import { guardedProvider } from './guarded-provider.ts'

export interface ProvidersParts {
  /** The first one is taken where nobody names one. */
  readonly providers: readonly Provider[]
  /** Another one to take then. */
  readonly defaultProvider?: string | undefined
  readonly log: Log
  readonly clock: Clock
}

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
  readonly #isolation = new Map<string, Isolation>()
  readonly #default: Provider
  /** Told once of each provider, when the first sandbox or snapshot of it is met. */
  onUsed: (provider: Provider) => void = () => undefined

  constructor(parts: ProvidersParts) {
    for (const inner of parts.providers) {
      if (this.#byName.has(inner.name)) throw new Error(`two providers are called ${inner.name}`)
      this.#byName.set(inner.name, guardedProvider(inner, parts))
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
      this.onUsed(provider)
    }
    return provider
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

  /** Asked once: a provider's isolation does not change while it runs. `unavailable` where it does not answer. */
  async isolationOf(provider: Provider): Promise<Isolation> {
    const known = this.#isolation.get(provider.name)
    if (known) return known
    const { isolation } = await provider.capabilities(CALL)
    this.#isolation.set(provider.name, isolation)
    return isolation
  }

  close(): void {
    for (const provider of this.#byName.values()) provider.close()
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
