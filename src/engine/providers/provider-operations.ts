/** What the API may ask about providers, and preparing a base on one of them. */
import { defaultBase } from '../../bases/bases.ts'
import type { Capabilities, Check, Isolation } from '../../core/capability.ts'
import type { Base } from '../../core/environment.ts'
import { asAgentPodError } from '../../core/error.ts'
import type { Provider, RootRef } from '../../core/provider.ts'
import type { BaseWish } from '../../core/recipe.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import { chooseProvider } from './choose-provider.ts'

const DIAGNOSE = { timeoutMs: 60_000 }
/** Shorter in a list, so that a provider that does not answer delays the others less. */
const DESCRIBE = { timeoutMs: 15_000 }

/** A provider as the API shows it. */
export interface ProviderInfo {
  readonly name: string
  /** Unknown while the provider does not answer. */
  readonly isolation?: Isolation | undefined
  readonly ready: boolean
  /** Why it is not ready. */
  readonly reason?: string | undefined
  readonly capabilities?: Capabilities | undefined
}

export class ProviderOperations {
  readonly #ctx: Pick<Context, 'providers' | 'roots' | 'leastIsolation'>

  #preparing = 0

  constructor(ctx: Pick<Context, 'providers' | 'roots' | 'leastIsolation'>) {
    this.#ctx = ctx
  }

  /** Bases that are being built or pulled. */
  get busyCount(): number {
    return this.#preparing
  }

  get defaultName(): string {
    return this.#ctx.providers.default.name
  }

  /** Every provider with its capabilities, or with the reason why it cannot be used now. */
  list(): Promise<ProviderInfo[]> {
    return Promise.all(this.#ctx.providers.all.map(describe))
  }

  /** Of the named provider, or of the default one. */
  capabilities(name?: string): Promise<Capabilities> {
    return this.#provider(name).capabilities(CALL)
  }

  diagnose(name?: string): Promise<readonly Check[]> {
    return this.#provider(name).diagnose(DIAGNOSE)
  }

  /** Prepares a base ahead of a create, and reports progress. */
  async prepareBase(
    wish: Omit<BaseWish, 'name'> & { readonly name?: Base | undefined },
    onProgress: (line: string) => void,
    place: { readonly provider?: string | undefined; readonly owner: string },
  ): Promise<{
    root: RootRef
    digest: string | undefined
    variables: Readonly<Record<string, string>> | undefined
    provider: Provider
  }> {
    const provider = await this.#providerFor(place)
    const base = wish.name ?? defaultBase(wish, provider)
    this.#preparing += 1
    try {
      const ready = await this.#ctx.roots.ensure({ ...wish, name: base }, provider, onProgress)
      const { root, digest, variables } = ready
      return { root, digest, variables, provider }
    } finally {
      this.#preparing -= 1
    }
  }

  /** The provider that a create of this owner would choose. */
  async #providerFor(place: { provider?: string | undefined; owner: string }): Promise<Provider> {
    const { providers } = this.#ctx
    if (place.provider !== undefined) return providers.use(providers.named(place.provider))
    const isolation = this.#ctx.leastIsolation?.(place.owner)
    if (isolation === undefined) return providers.use(providers.default)
    return (await chooseProvider(providers, { isolation, isRequired: true })).provider
  }

  #provider(name: string | undefined): Provider {
    const { providers } = this.#ctx
    return name === undefined ? providers.default : providers.named(name)
  }
}

async function describe(provider: Provider): Promise<ProviderInfo> {
  const { name } = provider
  try {
    const capabilities = await provider.capabilities(DESCRIBE)
    const failed = (await provider.diagnose(DESCRIBE)).find(({ ok, required }) => required && !ok)
    const reason = failed && [failed.detail, failed.hint].filter(Boolean).join('; ')
    return { name, isolation: capabilities.isolation, ready: !failed, reason, capabilities }
  } catch (error) {
    const { message, hint } = asAgentPodError(error)
    return { name, ready: false, reason: hint ? `${message}; ${hint}` : message }
  }
}
