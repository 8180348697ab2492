/** The decision about a destination: a host name or a bare address. */
import type { AddressLists, NetworkMode } from '../../core/network.ts'
import { formatAddress, isDialable } from '../../policy/address.ts'
import { type Block, isInBlocks, parseBlock } from '../../policy/cidr.ts'
import { decide, type NetworkPolicy } from '../../policy/decide.ts'
import { isNamed, type NamedAddress, parseNamedAddress } from '../../policy/named-address.ts'
import { DEFAULT_PORTS, isSendableMethod, type Rule } from '../../policy/rule.ts'
import type { Destination } from '../destination.ts'

/** Like `NetworkDecision`, with additional reasons for addresses. */
export interface Judgement {
  readonly allowed: boolean
  readonly reason: string
  readonly rule?: Rule | undefined
  readonly message: string
  readonly hint: string
  readonly allowPrivate: boolean
  /** As in `NetworkDecision`. */
  readonly isMember?: boolean | undefined
}

export interface Blocks {
  readonly allowed: readonly Block[]
  readonly denied: readonly Block[]
  readonly named: readonly NamedAddress[]
}

export interface MethodAndPath {
  readonly method: string
  readonly path: string
}

/** Throws if any entry is malformed, so that a policy is accepted completely or not at all. */
export function parseBlocks(lists: AddressLists | undefined): Blocks {
  return {
    allowed: (lists?.allowed ?? []).map(parseBlock),
    denied: (lists?.denied ?? []).map(parseBlock),
    named: (lists?.named ?? []).map(parseNamedAddress),
  }
}

export function judge(
  { policy, blocks }: { readonly policy: NetworkPolicy; readonly blocks: Blocks },
  destination: Destination,
  request?: MethodAndPath,
): Judgement {
  if (destination.kind === 'name')
    return decide(policy, { host: destination.host, port: destination.port, ...request })
  if (request && !isSendableMethod(request.method))
    return refused(
      'request.method',
      'this HTTP method is not forwarded',
      'use GET, POST or another common method',
    )
  return judgeAddress(policy.mode, blocks, destination)
}

function judgeAddress(
  mode: NetworkMode,
  { allowed, denied, named }: Blocks,
  { address, port }: Destination & { kind: 'address' },
): Judgement {
  const text = formatAddress(address)
  if (mode === 'off')
    return refused('mode.off', 'this sandbox has no network', 'create a sandbox with --net allowlist')
  if (isInBlocks(denied, address))
    return refused('address.denied', `the address ${text} is denied`, 'ask the user to remove the denial')
  if (isNamed(named, address, port) && isDialable(address, { allowPrivate: true }))
    return {
      ...permitted('address.allow', `the user allowed the server ${text} on port ${port}`),
      hint: 'it may be a private address',
      allowPrivate: true,
    }
  // SECURITY: NW-03, NW-04. No other list allows an address that is not public.
  if (!isDialable(address, { allowPrivate: false }))
    return refused('address.private', `the address ${text} is not public`, 'no rule can allow it')
  if (isInBlocks(allowed, address)) return permitted('address.allow', `the address ${text} is allowed`)
  if (mode !== 'open')
    return refused('address.none', `no rule allows the address ${text}`, 'connect by host name instead')
  if (!DEFAULT_PORTS.includes(port))
    return refused(
      'open.port',
      `an open network only allows ports ${DEFAULT_PORTS.join(' and ')}`,
      'use one of them',
    )
  return permitted('open.allow', `the address ${text} is allowed because the network is open`)
}

function refused(reason: string, message: string, hint: string): Judgement {
  return { allowed: false, reason, message, hint, allowPrivate: false }
}

function permitted(reason: string, message: string): Judgement {
  return { allowed: true, reason, message, hint: 'it must be a public address', allowPrivate: false }
}
