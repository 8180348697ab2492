/** The decision about a target, be it a name or a bare address. */
import type { AddressLists, NetworkMode } from '../core/network.ts'
import { formatAddress, isDialable } from '../policy/address.ts'
import { type Block, isInBlocks, parseBlock } from '../policy/cidr.ts'
import { decide, type NetworkPolicy } from '../policy/decide.ts'
import { isNamed, type NamedAddress, parseNamedAddress } from '../policy/named-address.ts'
import { DEFAULT_PORTS, isSendableMethod, type Rule } from '../policy/rule.ts'
import type { Target } from './target.ts'

/** As `Decision`, with the reasons that only addresses have. */
export interface Judgement {
  readonly allowed: boolean
  readonly reason: string
  readonly rule?: Rule | undefined
  readonly message: string
  readonly hint: string
  readonly allowPrivate: boolean
}

export interface Blocks {
  readonly allowed: readonly Block[]
  readonly denied: readonly Block[]
  readonly named: readonly NamedAddress[]
}

export interface AskedRequest {
  readonly method: string
  readonly path: string
}

/** Throws on a list that holds what is no block, so that a policy is taken whole or not at all. */
export function parseBlocks(lists: AddressLists | undefined): Blocks {
  return {
    allowed: (lists?.allowed ?? []).map(parseBlock),
    denied: (lists?.denied ?? []).map(parseBlock),
    named: (lists?.named ?? []).map(parseNamedAddress),
  }
}

export function judge(
  { policy, blocks }: { readonly policy: NetworkPolicy; readonly blocks: Blocks },
  target: Target,
  request?: AskedRequest,
): Judgement {
  if (target.kind === 'name') return decide(policy, { host: target.host, port: target.port, ...request })
  if (request && !isSendableMethod(request.method))
    return no('request.method', 'this method is never passed on', 'use GET, POST or another common method')
  return judgeAddress(policy.mode, blocks, target)
}

function judgeAddress(
  mode: NetworkMode,
  { allowed, denied, named }: Blocks,
  { address, port }: Target & { kind: 'address' },
): Judgement {
  const text = formatAddress(address)
  if (mode === 'off') return no('mode.off', 'this sandbox has no network', 'create one with --net allowlist')
  if (isInBlocks(denied, address))
    return no('address.denied', `the address ${text} is denied`, 'ask the user to lift it')
  if (isNamed(named, address, port) && isDialable(address, { allowPrivate: true }))
    return {
      ...yes('address.allow', `the user named the server ${text} on port ${port}`),
      hint: 'it may be on a private address',
      allowPrivate: true,
    }
  // SECURITY: NW-03, NW-04. No other list opens what is not on the public internet.
  if (!isDialable(address, { allowPrivate: false }))
    return no('address.private', `the address ${text} is not on the public internet`, 'no rule opens it')
  if (isInBlocks(allowed, address)) return yes('address.allow', `the address ${text} is allowed`)
  if (mode !== 'open')
    return no('address.none', `no rule allows the address ${text}`, 'use the name of the server')
  if (!DEFAULT_PORTS.includes(port))
    return no(
      'open.port',
      `an open network is open on ports ${DEFAULT_PORTS.join(' and ')}`,
      'use one of them',
    )
  return yes('open.allow', `the address ${text} is allowed because the network is open`)
}

function no(reason: string, message: string, hint: string): Judgement {
  return { allowed: false, reason, message, hint, allowPrivate: false }
}

function yes(reason: string, message: string): Judgement {
  return { allowed: true, reason, message, hint: 'it must be on a public address', allowPrivate: false }
}
