/** A connection as podd hands it over: who it says it is for, then the tunnel or the engine it belongs to. */
import type { Duplex } from 'node:stream'
import { readHeaderLine } from './header-line.ts'
import { endWith, endWithRefusal } from './http-answer.ts'
import { peek } from './intake.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import type { Route } from './reach.ts'
import { outcomeOf, type Refusal, refusal, refusalOf, refusalOfError } from './refusal.ts'
import { readSocks, replyOf, SOCKS_VERSION, socksReply } from './socks.ts'
import { readAuthority, type Target, type Via } from './target.ts'
import { enterTunnel, refuseTunnel, type TunnelParts } from './tunnel.ts'

const HEAD_MS = 15_000
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

export interface Arrival {
  readonly stream: Duplex
  readonly link: Link
  /** Set where there is no room for it: it is answered with this and nothing else. */
  readonly overfull?: Refusal | undefined
}

/** Rejects only for a bug; the caller ends the stream then. */
export async function receive(arrival: Arrival, line: Buffer | undefined, parts: TunnelParts): Promise<void> {
  const { stream, link, overfull } = arrival
  const header = line && readHeaderLine(line)
  if (!header) return void stream.destroy()
  if (header.kind === 'proxy') return receiveProxy(arrival, parts)
  if (header.kind === 'malformed') {
    noteRefused(link, 'direct', MALFORMED_HOST)
    return void stream.destroy()
  }
  const { target } = header
  const judgement = link.judge(target)
  const tunnel = { stream, link, target, via: 'direct', judgement } as const
  if (overfull) return refuseTunnel(tunnel, parts, { why: overfull })
  if (!judgement.allowed && judgement.reason !== 'request.unseen')
    return refuseTunnel(tunnel, parts, { why: refusalOf(judgement) })
  return enterTunnel(tunnel, parts)
}

async function receiveProxy(arrival: Arrival, parts: TunnelParts): Promise<void> {
  const { stream, link, overfull } = arrival
  const { clock } = link.parts
  const first = await peek(stream, { clock, limit: 1, withinMs: HEAD_MS, judge: (bytes) => bytes[0] })
  if (first.value === undefined) return void stream.destroy()
  if (first.value === SOCKS_VERSION) return receiveSocks(arrival, parts)
  if (overfull) {
    noteRefused(link, 'http', overfull)
    return endWithRefusal(stream, overfull, clock)
  }
  const connect = (tunnel: Duplex, authority: string): void => {
    receiveConnect({ stream: tunnel, link }, authority, parts).catch((error) => {
      link.parts.log.error('a connection was dropped', { error })
      tunnel.destroy()
    })
  }
  parts.http.serve({ stream, link, site: 'proxy', via: 'http', connect })
}

async function receiveConnect(
  { stream, link }: Arrival,
  authority: string,
  parts: TunnelParts,
): Promise<void> {
  const refuse = (why: Refusal): void => endWithRefusal(stream, why, link.parts.clock)
  const target = readAuthority(authority)
  if (!target) {
    noteRefused(link, 'connect', MALFORMED_HOST)
    return refuse(MALFORMED_HOST)
  }
  const answer = {
    stream,
    link,
    target,
    via: 'connect',
    refuse,
    accept: () => stream.write(ESTABLISHED),
  } as const
  return connectTo(answer, parts)
}

async function receiveSocks({ stream, link, overfull }: Arrival, parts: TunnelParts): Promise<void> {
  const asked = await readSocks(stream, link.parts.clock)
  if (asked.kind === 'over') return
  const refuse = (why: Refusal): void => endWith(stream, socksReply(replyOf(why)), link.parts.clock)
  if (asked.kind === 'malformed' || overfull) {
    const why = overfull ?? MALFORMED_HOST
    noteRefused(link, 'socks', why)
    return refuse(why)
  }
  const accept = (): unknown => stream.write(socksReply('succeeded'))
  return connectTo({ stream, link, target: asked.target, via: 'socks', refuse, accept }, parts)
}

interface Answering {
  readonly stream: Duplex
  readonly link: Link
  readonly target: Target
  readonly via: Via
  readonly refuse: (why: Refusal) => void
  readonly accept: () => unknown
}

/**
 * Accepted once it is decided and the name is known to lead somewhere that may be dialled, so that the client hears of a no in its own protocol. It is dialled when it has
 * said what it speaks.
 */
async function connectTo({ refuse, accept, ...asked }: Answering, parts: TunnelParts): Promise<void> {
  const { stream, link, target, via } = asked
  const judgement = link.judge(target)
  if (!judgement.allowed && judgement.reason !== 'request.unseen') {
    const why = refusalOf(judgement)
    noteRefused(link, via, why, { target, judgement })
    return refuse(why)
  }
  let route: Route | undefined
  if (!link.needsLook(target, judgement))
    try {
      route = await link.findRoute(target, judgement)
    } catch (error) {
      const why = refusalOfError(error)
      noteRefused(link, via, why, { target, judgement })
      return refuse(why)
    }
  if (stream.destroyed) return
  accept()
  return enterTunnel({ ...asked, judgement, route }, parts)
}

const MALFORMED_HOST = refusal(
  400,
  'host.malformed',
  'what was asked for is no plain host name, address and port',
  'write the name in ASCII, without escapes, and the port as a number',
)

function noteRefused(
  link: Link,
  via: Via,
  why: Refusal,
  about: { readonly target?: Target; readonly judgement?: Judgement } = {},
): void {
  link.note({ outcome: outcomeOf(why), via, reason: why.reason, message: why.message, ...about })
}
