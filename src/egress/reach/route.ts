/**
 * From an allowed destination to a connection. INVARIANT: the order is decide, resolve, check, dial, and the
 * dialed address is the checked one.
 */
import type { Socket } from 'node:net'
import { type Address, classify, isDialable, readAddress } from '../../policy/address.ts'
import { effectiveAddress, isInBlocks } from '../../policy/cidr.ts'
import type { Clock } from '../../util/clock.ts'
import type { Blocks, Judgement } from '../decide/judge.ts'
import type { NameFlood } from '../decide/name-flood.ts'
import { type Destination, hostText } from '../destination.ts'
import { denied, failed } from '../refusal.ts'
import type { Dial } from './dial.ts'
import { dialMember } from './dial-member.ts'
import type { OwnAddresses } from './own-address.ts'
import type { Lookups } from './resolve.ts'
import { connectThrough, type UpstreamProxy } from './upstream-proxy.ts'

export interface RouteParts {
  readonly clock: Clock
  readonly dial: Dial
  readonly lookups: Lookups
  readonly flood: NameFlood
  readonly ownAddresses: OwnAddresses
  readonly blocks: Blocks
  readonly proxy?: UpstreamProxy | undefined
  /** The server's socket for connections to members of the group. */
  readonly members?: string | undefined
}

/** How a destination is reached. */
export type Route =
  | { readonly kind: 'addresses'; readonly addresses: readonly Address[] }
  | { readonly kind: 'proxy'; readonly proxy: UpstreamProxy }
  | { readonly kind: 'member'; readonly socket: string }

export interface DialedConnection {
  readonly socket: Socket
  /** Absent behind an upstream proxy, which resolves the name itself, and for members of the group. */
  readonly address?: Address | undefined
}

const MOST_ADDRESSES = 4
const EACH_MS = 10_000
const ALL_MS = 20_000

/** Throws the error to report to the client. The caller must have checked that the destination is allowed. */
export async function findRoute(
  parts: RouteParts,
  { destination, judgement }: { readonly destination: Destination; readonly judgement: Judgement },
  signal: AbortSignal,
): Promise<Route> {
  if (judgement.isMember) {
    if (parts.members === undefined) throw failed('upstream.group', 'the group is not reachable', 'try again')
    return { kind: 'member', socket: parts.members }
  }
  if (destination.kind === 'name' && !parts.flood.admits(judgement.rule, destination.host))
    throw denied(
      'dns.flood',
      judgement.rule
        ? `this sandbox looked up too many new names below ${judgement.rule.host} within a minute`
        : 'this sandbox looked up too many new names within a minute',
      'wait a minute, or ask the user for rules for the names you need',
    )
  if (parts.proxy) return { kind: 'proxy', proxy: parts.proxy }
  const answers =
    destination.kind === 'address'
      ? [destination.address]
      : (await parts.lookups.addresses(destination.host, signal)).flatMap((text) => readAddress(text) ?? [])
  const { allowPrivate } = judgement
  const addresses = answers.filter((one) => mayDial(parts, one, allowPrivate)).slice(0, MOST_ADDRESSES)
  if (addresses.length > 0) return { kind: 'addresses', addresses }
  throw notDialable(parts, { destination, answers })
}

/**
 * SECURITY: NW-03, NW-04, NW-09, NW-10. Checked for each address, and again for open connections on a policy
 * change.
 */
export function mayDial(
  { blocks, ownAddresses }: Pick<RouteParts, 'blocks' | 'ownAddresses'>,
  address: Address,
  allowPrivate: boolean,
): boolean {
  if (!isDialable(address, { allowPrivate }) || isInBlocks(blocks.denied, address)) return false
  const { bits } = effectiveAddress(address)
  return !ownAddresses().some((own) => effectiveAddress(own).bits === bits)
}

function notDialable(
  { blocks }: RouteParts,
  { destination, answers }: { readonly destination: Destination; readonly answers: readonly Address[] },
): Error {
  const host = hostText(destination)
  if (answers.length > 0 && answers.every((one) => isInBlocks(blocks.denied, one)))
    return denied(
      'address.denied',
      `the addresses of ${host} are denied`,
      'ask the user to remove the denial',
    )
  const classes = [...new Set(answers.map((one) => classify(one).class))]
  const isOpenable = classes.some((name) => name === 'private' || name === 'cgnat')
  return denied(
    'address.private',
    `${host} resolves to an address that is not allowed (${classes.join(', ') || 'none'})`,
    isOpenable && destination.kind === 'name'
      ? `if it is a server in the user's own network, ask them for a rule for ${host} with private = true`
      : 'no rule can allow it',
  )
}

/** Tries the addresses one after another. */
export async function dialRoute(
  { clock, dial, from }: Pick<RouteParts, 'clock' | 'dial'> & { readonly from: string },
  { route, destination }: { readonly route: Route; readonly destination: Destination },
  signal: AbortSignal,
): Promise<DialedConnection> {
  const all = AbortSignal.any([signal, AbortSignal.timeout(ALL_MS)])
  if (route.kind === 'proxy')
    return { socket: await connectThrough({ proxy: route.proxy, destination, clock }, all) }
  if (route.kind === 'member')
    return { socket: await dialMember({ socket: route.socket, from, destination }, all) }
  let why = 'failed'
  for (const address of route.addresses) {
    const limit = AbortSignal.any([all, AbortSignal.timeout(EACH_MS)])
    try {
      return { socket: await dial({ address, port: destination.port }, limit), address }
    } catch (error) {
      if (signal.aborted) throw error
      why = describe(error)
    }
    if (all.aborted) break
  }
  const place = `${hostText(destination)} on port ${destination.port}`
  throw failed(`upstream.${why}`, MESSAGES[why]?.(place) ?? `the connection to ${place} failed`, 'try again')
}

const MESSAGES: Readonly<Record<string, (place: string) => string>> = {
  refused: (place) => `${place} refused the connection`,
  timeout: (place) => `${place} did not answer in time`,
  unreachable: (place) => `there is no route from this machine to ${place}`,
}

function describe(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  if (code === 'ECONNREFUSED') return 'refused'
  if (code === 'ETIMEDOUT' || name === 'TimeoutError') return 'timeout'
  return code === 'ENETUNREACH' || code === 'EHOSTUNREACH' ? 'unreachable' : 'failed'
}
