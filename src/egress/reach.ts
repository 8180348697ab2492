/**
 * From a target that is allowed to a connection. INVARIANT: the order is decide, resolve, check, dial, and what is dialled is the address that was checked.
 */
import type { Socket } from 'node:net'
import { type Address, classify, isDialable, readAddress } from '../policy/address.ts'
import { isInBlocks, plain } from '../policy/cidr.ts'
import type { Clock } from '../util/clock.ts'
import type { Dial } from './dial.ts'
import type { Blocks, Judgement } from './judge.ts'
import type { NameFlood } from './name-flood.ts'
import type { OwnAddresses } from './own-address.ts'
import { denied, failed } from './refusal.ts'
import type { Lookups } from './resolve.ts'
import { hostText, type Target } from './target.ts'
import { connectThrough, type UpstreamProxy } from './upstream-proxy.ts'

export interface ReachParts {
  readonly clock: Clock
  readonly dial: Dial
  readonly lookups: Lookups
  readonly flood: NameFlood
  readonly ownAddresses: OwnAddresses
  readonly blocks: Blocks
  readonly proxy?: UpstreamProxy | undefined
}

/** Which way a target is reached. */
export type Route =
  | { readonly kind: 'addresses'; readonly addresses: readonly Address[] }
  | { readonly kind: 'proxy'; readonly proxy: UpstreamProxy }

export interface Reached {
  readonly socket: Socket
  /** Absent behind a proxy, which alone knows it. */
  readonly address?: Address | undefined
}

const MOST_TRIED = 4
const EACH_MS = 10_000
const ALL_MS = 20_000

/** Throws what there is to say to the program that asked. The target must have been allowed. */
export async function findRoute(
  parts: ReachParts,
  { target, judgement }: { readonly target: Target; readonly judgement: Judgement },
  signal: AbortSignal,
): Promise<Route> {
  if (target.kind === 'name' && !parts.flood.admits(judgement.rule, target.host))
    throw denied(
      'dns.flood',
      judgement.rule
        ? `too many names below ${judgement.rule.host} were asked for within a minute`
        : 'too many names were asked for within a minute',
      'wait a minute, or ask the user for rules on the names you need',
    )
  if (parts.proxy) return { kind: 'proxy', proxy: parts.proxy }
  const answers =
    target.kind === 'address'
      ? [target.address]
      : (await parts.lookups.addresses(target.host, signal)).flatMap((text) => readAddress(text) ?? [])
  const { allowPrivate } = judgement
  const addresses = answers.filter((one) => mayDial(parts, one, allowPrivate)).slice(0, MOST_TRIED)
  if (addresses.length > 0) return { kind: 'addresses', addresses }
  throw notDialable(parts, { target, answers })
}

/** SECURITY: NW-03, NW-04, NW-09, NW-10. Asked of each address, and again of open connections when a policy changes. */
export function mayDial(
  { blocks, ownAddresses }: Pick<ReachParts, 'blocks' | 'ownAddresses'>,
  address: Address,
  allowPrivate: boolean,
): boolean {
  if (!isDialable(address, { allowPrivate }) || isInBlocks(blocks.denied, address)) return false
  const { bits } = plain(address)
  return !ownAddresses().some((own) => plain(own).bits === bits)
}

function notDialable(
  { blocks }: ReachParts,
  { target, answers }: { readonly target: Target; readonly answers: readonly Address[] },
): Error {
  const host = hostText(target)
  if (answers.length > 0 && answers.every((one) => isInBlocks(blocks.denied, one)))
    return denied('address.denied', `the addresses of ${host} are denied`, 'ask the user to lift it')
  const classes = [...new Set(answers.map((one) => classify(one).class))]
  const isOpenable = classes.some((name) => name === 'private' || name === 'cgnat')
  return denied(
    'address.private',
    `${host} leads to an address that may not be reached (${classes.join(', ') || 'none'})`,
    isOpenable && target.kind === 'name'
      ? `if it is a server of the user's own network, ask them for a rule on ${host} with private = true`
      : 'no rule opens it',
  )
}

/** Tries one address after another. */
export async function follow(
  { clock, dial }: Pick<ReachParts, 'clock' | 'dial'>,
  { route, target }: { readonly route: Route; readonly target: Target },
  signal: AbortSignal,
): Promise<Reached> {
  const all = AbortSignal.any([signal, AbortSignal.timeout(ALL_MS)])
  if (route.kind === 'proxy')
    return { socket: await connectThrough({ proxy: route.proxy, target, clock }, all) }
  let why = 'failed'
  for (const address of route.addresses) {
    const limit = AbortSignal.any([all, AbortSignal.timeout(EACH_MS)])
    try {
      return { socket: await dial({ address, port: target.port }, limit), address }
    } catch (error) {
      if (signal.aborted) throw error
      why = describe(error)
    }
    if (all.aborted) break
  }
  const place = `${hostText(target)} on port ${target.port}`
  throw failed(
    `upstream.${why}`,
    `${place} could not be connected to: ${WORDS[why] ?? 'it failed'}`,
    'try again',
  )
}

const WORDS: Readonly<Record<string, string>> = {
  refused: 'nothing listens there',
  timeout: 'there was no answer in time',
  unreachable: 'there is no way to it from this machine',
}

function describe(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  if (code === 'ECONNREFUSED') return 'refused'
  if (code === 'ETIMEDOUT' || name === 'TimeoutError') return 'timeout'
  return code === 'ENETUNREACH' || code === 'EHOSTUNREACH' ? 'unreachable' : 'failed'
}
