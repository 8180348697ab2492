/** Chooses the provider for a new sandbox, before anything is made. */
import type { CallOptions } from '../../core/call.ts'
import { ISOLATIONS, type Isolation, isAtLeast } from '../../core/capability.ts'
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import type { Provider } from '../../core/provider.ts'
import { CALL } from '../call.ts'
import type { ProviderRegistry } from './provider-registry.ts'

/** How long to wait for a provider that the request does not name. */
const PROBE = { timeoutMs: 5000 }

export interface PlacementRequest {
  readonly provider?: string | undefined
  /** The lowest acceptable level. */
  readonly isolation?: Isolation | undefined
  /** Whether a rule of the server or of the key asks for the level, rather than the request. */
  readonly isRequired?: boolean | undefined
  /** The snapshot or environment to start from, and its provider. It cannot be used on another one. */
  readonly bound?: { readonly provider: string; readonly what: string } | undefined
}

export interface Placement {
  readonly provider: Provider
  readonly isolation: Isolation
}

/**
 * The named provider, or the one of the snapshot or environment, or the default one. If the default isolates
 * too little, the first provider that isolates enough. The level is never below the requested one.
 */
export async function chooseProvider(
  providers: ProviderRegistry,
  request: PlacementRequest,
): Promise<Placement> {
  if (request.isolation !== undefined && !ISOLATIONS.includes(request.isolation))
    throw invalid('isolation.unknown', `isolation must be one of ${ISOLATIONS.join(', ')}`)
  const fixed = fixedProvider(providers, request)
  if (fixed) return withEnoughIsolation(providers, fixed, request)
  const placement = await levelOf(providers, providers.default)
  if (isEnough(placement, request)) return { ...placement, provider: providers.use(placement.provider) }
  // All are asked at once, so that several silent providers delay no longer than one.
  for (const asked of providers.all.map((provider) =>
    levelOf(providers, provider, PROBE).catch(() => undefined),
  )) {
    const other = await asked
    if (other && isEnough(other, request)) return { ...other, provider: providers.use(other.provider) }
  }
  throw await tooWeak(providers, request)
}

function fixedProvider(
  providers: ProviderRegistry,
  { provider, bound }: PlacementRequest,
): Provider | undefined {
  const named = provider === undefined ? undefined : providers.named(provider)
  if (!bound) return named && providers.use(named)
  if (named && named.name !== bound.provider) {
    throw invalid(
      'provider.other',
      `${bound.what} is on the provider ${bound.provider} and cannot be used on ${named.name}`,
      `leave out the provider, or use ${bound.provider}`,
    )
  }
  return providers.of(bound)
}

async function withEnoughIsolation(
  providers: ProviderRegistry,
  provider: Provider,
  request: PlacementRequest,
): Promise<Placement> {
  const placement = await levelOf(providers, provider)
  if (isEnough(placement, request)) return placement
  throw await tooWeak(providers, request, provider)
}

async function levelOf(
  providers: ProviderRegistry,
  provider: Provider,
  o: CallOptions = CALL,
): Promise<Placement> {
  return { provider, isolation: await providers.isolationOf(provider, o) }
}

function isEnough({ isolation }: Placement, request: PlacementRequest): boolean {
  return request.isolation === undefined || isAtLeast(isolation, request.isolation)
}

function notReady(provider: Provider | undefined, reason: unknown): string {
  const { message, hint } = asAgentPodError(reason)
  return `${provider?.name} is not ready: ${message}${hint === undefined ? '' : ` (${hint})`}`
}

async function tooWeak(
  providers: ProviderRegistry,
  request: PlacementRequest,
  provider?: Provider,
): Promise<AgentPodError> {
  const asked = await Promise.allSettled(providers.all.map((one) => levelOf(providers, one, PROBE)))
  const levels = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const able = levels.filter((one) => isEnough(one, request)).map((one) => one.provider.name)
  const offered = [
    ...levels.map((one) => `${one.provider.name} offers ${one.isolation}`),
    ...asked.flatMap((one, n) => (one.status === 'rejected' ? [notReady(providers.all[n], one.reason)] : [])),
  ].join(', ')
  return new AgentPodError({
    code: 'unsupported',
    reason: 'isolation.unavailable',
    message: `${
      provider
        ? `the provider ${provider.name} does not offer isolation ${request.isolation}`
        : `no provider of this server offers isolation ${request.isolation}`
    }${request.isRequired ? ', which this key or server requires' : ''}`,
    hint: able.length > 0 ? `use \`--provider ${able[0]}\`` : `${offered}; see \`agentpod provider ls\``,
    details: { isolation: request.isolation },
  })
}
