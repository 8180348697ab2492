/** Which provider makes a sandbox. Decided before anything is made. */
import { ISOLATIONS, type Isolation, isAtLeast } from '../core/capability.ts'
import { AgentPodError, invalid, isAgentPodError } from '../core/error.ts'
import type { Provider } from '../core/provider.ts'
import type { Providers } from './providers.ts'

export interface Wish {
  readonly provider?: string | undefined
  /** The lowest level that is accepted. */
  readonly isolation?: Isolation | undefined
  /** What it begins with, and where that lies: it cannot be made elsewhere. */
  readonly bound?: { readonly provider: string; readonly what: string } | undefined
}

export interface Placement {
  readonly provider: Provider
  readonly isolation: Isolation
}

/**
 * The provider that is named, or the one that holds what the sandbox begins with, or the default one; where that isolates too little,
 * the first that isolates enough. Nothing ever falls below the level that was asked for.
 */
export async function place(providers: Providers, wish: Wish): Promise<Placement> {
  if (wish.isolation !== undefined && !ISOLATIONS.includes(wish.isolation))
    throw invalid('isolation.unknown', `isolation is one of ${ISOLATIONS.join(', ')}`)
  const fixed = fixedProvider(providers, wish)
  if (fixed) return checked(providers, fixed, wish)
  const placement = await levelOf(providers, providers.default)
  if (isEnough(placement, wish)) return { ...placement, provider: providers.use(placement.provider) }
  for (const provider of providers.all) {
    const other = await levelOf(providers, provider).catch((error: unknown) => {
      if (isAgentPodError(error)) return undefined
      throw error
    })
    if (other && isEnough(other, wish)) return { ...other, provider: providers.use(other.provider) }
  }
  throw await tooWeak(providers, wish)
}

function fixedProvider(providers: Providers, { provider, bound }: Wish): Provider | undefined {
  const named = provider === undefined ? undefined : providers.named(provider)
  if (!bound) return named && providers.use(named)
  if (named && named.name !== bound.provider) {
    throw invalid(
      'provider.other',
      `${bound.what} is on ${bound.provider}, and cannot be used on ${named.name}`,
      `leave the provider out, or name ${bound.provider}`,
    )
  }
  return providers.of(bound)
}

async function checked(providers: Providers, provider: Provider, wish: Wish): Promise<Placement> {
  const placement = await levelOf(providers, provider)
  if (isEnough(placement, wish)) return placement
  throw await tooWeak(providers, wish, provider)
}

async function levelOf(providers: Providers, provider: Provider): Promise<Placement> {
  return { provider, isolation: await providers.isolationOf(provider) }
}

function isEnough({ isolation }: Placement, wish: Wish): boolean {
  return wish.isolation === undefined || isAtLeast(isolation, wish.isolation)
}

async function tooWeak(providers: Providers, wish: Wish, provider?: Provider): Promise<AgentPodError> {
  const asked = await Promise.allSettled(providers.all.map((one) => levelOf(providers, one)))
  const levels = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const able = levels.filter((one) => isEnough(one, wish)).map((one) => one.provider.name)
  const offered = levels.map((one) => `${one.provider.name} offers ${one.isolation}`).join(', ')
  return new AgentPodError({
    code: 'unsupported',
    reason: 'isolation.unavailable',
    message: provider
      ? `${provider.name} does not isolate a sandbox by ${wish.isolation}`
      : `no provider here isolates a sandbox by ${wish.isolation}`,
    hint:
      able.length > 0 ? `use \`--provider ${able[0]}\`` : `${offered}; \`agentpod provider ls\` tells more`,
    details: { isolation: wish.isolation },
  })
}
