/** Translates E2B's network options into a network policy, and back. */
import type { NetworkSpec } from '../../core/network.ts'
import type { Principal } from '../../core/principal.ts'
import { isAddressBlock, lower, type NetworkRequest } from '../../engine/network/network-spec.ts'
import type { Network } from './schema.ts'
import { unsupportedOption } from './unsupported.ts'

const EVERYTHING = ['0.0.0.0/0', '::/0']

export interface NetworkFields {
  readonly allow_internet_access?: boolean | null | undefined
  readonly network?: Network | null | undefined
}

/**
 * At E2B a sandbox reaches the whole internet by default. Here the default is the widest access that the
 * caller's key allows. The engine refuses a rule that goes beyond it.
 */
export function toNetworkRequest(
  { allow_internet_access, network }: NetworkFields,
  who: Principal,
): NetworkRequest {
  if (network) refuseLater(network)
  const allowOut = network?.allowOut ?? []
  const denyOut = network?.denyOut ?? []
  const isClosed = allow_internet_access === false || denyOut.some((one) => EVERYTHING.includes(one))
  const isOpened = allowOut.some((one) => EVERYTHING.includes(one))
  const named = (list: readonly string[]): string[] => list.filter((one) => !isAddressBlock(one))
  const numbered = (list: readonly string[]): string[] =>
    list.filter((one) => isAddressBlock(one) && !EVERYTHING.includes(one))
  const headers = headerRules(network?.rules)
  const addresses = { allowed: numbered(allowOut), denied: numbered(denyOut) }
  const hasAddresses = addresses.allowed.length + addresses.denied.length > 0
  return {
    mode: lower(isClosed && !isOpened ? 'allowlist' : 'open', who.network?.mode),
    allow: named(allowOut),
    deny: named(denyOut),
    ...(hasAddresses && { addresses }),
    ...(headers.length > 0 && { headers }),
  }
}

type Headers = NonNullable<NetworkRequest['headers']>

/** `{"api.example.com": [{"transform": {"headers": {...}}}]}`; of several for one host, the last one wins. */
function headerRules(rules: Network['rules']): Headers {
  return Object.entries(rules ?? {}).flatMap(([host, list]) => {
    const headers = Object.assign({}, ...list.map(({ transform }) => transform?.headers ?? {})) as Record<
      string,
      string
    >
    return Object.keys(headers).length > 0 ? [{ host, headers }] : []
  })
}

/** SECURITY: an option that would not be enforced is refused, not ignored. */
function refuseLater(network: Network): void {
  const asked = (['httpsPorts', 'egressProxy'] as const).find((name) => !isEmpty(network[name]))
  if (asked) throw unsupportedOption(`network.${asked}`, 'it is planned for a later release')
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** SECURITY: header values are not returned, since they may be keys. */
export function networkInfo(spec: NetworkSpec): object {
  const { mode, rules, denied, addresses, headers } = spec
  return {
    allowOut: [...rules.map(({ host }) => host), ...(addresses?.allowed ?? [])],
    denyOut: [
      ...(mode === 'open' ? [] : ['0.0.0.0/0']),
      ...denied.map(({ host }) => host),
      ...(addresses?.denied ?? []),
    ],
    ...(headers && {
      rules: Object.fromEntries(
        headers.map((rule) => [
          rule.host,
          [
            {
              transform: {
                headers: Object.fromEntries(Object.keys(rule.headers).map((name) => [name, '***'])),
              },
            },
          ],
        ]),
      ),
    }),
  }
}
