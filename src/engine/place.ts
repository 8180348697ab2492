/** Which provider makes a sandbox. Decided before anything is made. */
import type { CallOptions } from '../core/call.ts'
import { ISOLATIONS, type Isolation, isAtLeast } from '../core/capability.ts'
import { AgentPodError, invalid } from '../core/error.ts'
import type { Provider } from '../core/provider.ts'
import { CALL } from './call.ts'
import type { Providers } from './providers.ts'

/** How long one that nobody named is waited for. */
const PROBE = { timeoutMs: 5000 }

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
  // All are asked at once, so that several that do not answer take no longer than one.
  for (const asked of providers.all.map((provider) =>
    levelOf(providers, provider, PROBE).catch(() => undefined),
  )) {
    const other = await asked
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

async function levelOf(providers: Providers, provider: Provider, o: CallOptions = CALL): Promise<Placement> {
  return { provider, isolation: await providers.isolationOf(provider, o) }
}

function isEnough({ isolation }: Placement, wish: Wish): boolean {
  return wish.isolation === undefined || isAtLeast(isolation, wish.isolation)
}

async function tooWeak(providers: Providers, wish: Wish, provider?: Provider): Promise<AgentPodError> {
  const asked = await Promise.allSettled(providers.all.map((one) => levelOf(providers, one, PROBE)))
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
