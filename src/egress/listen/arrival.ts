/**
 * A connection that podd hands over: reads its destination and passes it to the tunnel or the HTTP engine.
 */
import type { Duplex } from 'node:stream'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import { type Destination, readAuthority, type Via } from '../destination.ts'
import { endWith, endWithRefusal } from '../http/refuse.ts'
import type { Route } from '../reach/route.ts'
import { newRefusal, outcomeOf, type Refusal, refusalOf, refusalOfError } from '../refusal.ts'
import { enterTunnel, refuseTunnel, type TunnelParts } from '../tls/tunnel.ts'
import { readHeaderLine } from './header-line.ts'
import { peekStream } from './peek-stream.ts'
import { readSocks, replyOf, SOCKS_VERSION, socksReply } from './socks.ts'

const HEAD_MS = 15_000
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

export interface Arrival {
  readonly stream: Duplex
  readonly sandbox: SandboxEgress
  /** Set if the sandbox is over its connection limit: the connection is refused with this. */
  readonly overLimit?: Refusal | undefined
}

/** Rejects only on an internal error; the caller then destroys the stream. */
export async function receiveConnection(
  arrival: Arrival,
  line: Buffer | undefined,
  parts: TunnelParts,
): Promise<void> {
  const { stream, sandbox, overLimit } = arrival
  const header = line && readHeaderLine(line)
  if (!header) return void stream.destroy()
  if (header.kind === 'proxy') return receiveProxy(arrival, parts)
  if (header.kind === 'malformed') {
    noteRefused(sandbox, 'direct', MALFORMED_HOST)
    return void stream.destroy()
  }
  const { destination } = header
  const judgement = sandbox.judge(destination)
  const tunnel = { stream, sandbox, destination, via: 'direct', judgement } as const
  if (overLimit) return refuseTunnel(tunnel, parts, { why: overLimit })
  if (!judgement.allowed && judgement.reason !== 'request.unseen')
    return refuseTunnel(tunnel, parts, { why: refusalOf(judgement) })
  return enterTunnel(tunnel, parts)
}

async function receiveProxy(arrival: Arrival, parts: TunnelParts): Promise<void> {
  const { stream, sandbox, overLimit } = arrival
  const { clock } = sandbox.parts
  const first = await peekStream(stream, { clock, limit: 1, withinMs: HEAD_MS, judge: (bytes) => bytes[0] })
  if (first.value === undefined) return void stream.destroy()
  if (first.value === SOCKS_VERSION) return receiveSocks(arrival, parts)
  if (overLimit) {
    noteRefused(sandbox, 'http', overLimit)
    return endWithRefusal(stream, overLimit, clock)
  }
  const connect = (tunnel: Duplex, authority: string): void => {
    receiveConnect({ stream: tunnel, sandbox }, authority, parts).catch((error) => {
      sandbox.parts.log.error('dropped a connection after an internal error', { error })
      tunnel.destroy()
    })
  }
  parts.http.serve({ stream, sandbox, site: 'proxy', via: 'http', connect })
}

async function receiveConnect(
  { stream, sandbox }: Arrival,
  authority: string,
  parts: TunnelParts,
): Promise<void> {
  const refuse = (why: Refusal): void => endWithRefusal(stream, why, sandbox.parts.clock)
  const destination = readAuthority(authority)
  if (!destination) {
    noteRefused(sandbox, 'connect', MALFORMED_HOST)
    return refuse(MALFORMED_HOST)
  }
  const answer = {
    stream,
    sandbox,
    destination,
    via: 'connect',
    refuse,
    accept: () => stream.write(ESTABLISHED),
  } as const
  return connectTo(answer, parts)
}

async function receiveSocks({ stream, sandbox, overLimit }: Arrival, parts: TunnelParts): Promise<void> {
  const asked = await readSocks(stream, sandbox.parts.clock)
  if (asked.kind === 'over') return
  const refuse = (why: Refusal): void => endWith(stream, socksReply(replyOf(why)), sandbox.parts.clock)
  if (asked.kind === 'malformed' || overLimit) {
    const why = overLimit ?? MALFORMED_HOST
    noteRefused(sandbox, 'socks', why)
    return refuse(why)
  }
  const accept = (): unknown => stream.write(socksReply('succeeded'))
  return connectTo({ stream, sandbox, destination: asked.destination, via: 'socks', refuse, accept }, parts)
}

interface ConnectRequest {
  readonly stream: Duplex
  readonly sandbox: SandboxEgress
  readonly destination: Destination
  readonly via: Via
  readonly refuse: (why: Refusal) => void
  readonly accept: () => unknown
}

/**
 * Accepts the connection after the policy has allowed it and the name resolves to an address that may be
 * dialed, so that a refusal reaches the client in its own protocol. The server is dialed when the client has
 * sent its first bytes.
 */
async function connectTo({ refuse, accept, ...asked }: ConnectRequest, parts: TunnelParts): Promise<void> {
  const { stream, sandbox, destination, via } = asked
  const judgement = sandbox.judge(destination)
  if (!judgement.allowed && judgement.reason !== 'request.unseen') {
    const why = refusalOf(judgement)
    noteRefused(sandbox, via, why, { destination, judgement })
    return refuse(why)
  }
  let route: Route | undefined
  if (!sandbox.needsInspection(destination, judgement))
    try {
      route = await sandbox.findRoute(destination, judgement)
    } catch (error) {
      const why = refusalOfError(error)
      noteRefused(sandbox, via, why, { destination, judgement })
      return refuse(why)
    }
  if (stream.destroyed) return
  accept()
  return enterTunnel({ ...asked, judgement, route }, parts)
}

const MALFORMED_HOST = newRefusal(
  400,
  'host.malformed',
  'the destination is not a valid host name or IP address with a port',
  'write the name in ASCII, without escapes, and the port as a number',
)

function noteRefused(
  sandbox: SandboxEgress,
  via: Via,
  why: Refusal,
  about: { readonly destination?: Destination; readonly judgement?: Judgement } = {},
): void {
  sandbox.note({ outcome: outcomeOf(why), via, reason: why.reason, message: why.message, ...about })
}
