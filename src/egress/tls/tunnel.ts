/**
 * A connection to a destination that is allowed or must be inspected. Its first bytes show the protocol,
 * which decides whether it is passed through, decrypted or refused.
 */
import { METHODS } from 'node:http'
import type { Duplex } from 'node:stream'
import { DEFAULT_PORTS } from '../../policy/rule.ts'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import { type Destination, hostText, type Via } from '../destination.ts'
import type { HttpEngine } from '../http/engine.ts'
import { endWith, endWithRefusal } from '../http/refuse.ts'
import { peekStream } from '../listen/peek-stream.ts'
import type { Route } from '../reach/route.ts'
import { newRefusal, outcomeOf, type Refusal, refusalOfError } from '../refusal.ts'
import { type Alert, fatalAlert } from './alert.ts'
import { type ClientHello, LONGEST_HELLO, readClientHello } from './client-hello.ts'
import type { Interceptor } from './interceptor.ts'
import { type PassedConnection, passThrough } from './passthrough.ts'
import { checkServerName } from './server-name.ts'

export interface TunnelParts {
  readonly http: HttpEngine
  readonly interceptor?: Interceptor | undefined
}

export interface Tunnel {
  readonly stream: Duplex
  readonly sandbox: SandboxEgress
  readonly destination: Destination
  readonly via: Via
  readonly judgement: Judgement
  /** Set if it was resolved already. */
  readonly route?: Route | undefined
}

type Protocol =
  | { readonly kind: 'tls'; readonly hello: ClientHello | 'bad' }
  | { readonly kind: 'http' }
  | { readonly kind: 'other' }

const FIRST_MS = 10_000
/**
 * On other ports than 80 and 443: how long to wait for the client before assuming that the server speaks
 * first.
 */
const QUIET_MS = 300
const HANDSHAKE = 0x16
const LONGEST_METHOD = 32
const KNOWN_METHODS = new Set(METHODS)

export async function enterTunnel(tunnel: Tunnel, parts: TunnelParts): Promise<void> {
  const { stream, sandbox, destination, judgement } = tunnel
  const needsInspection = sandbox.needsInspection(destination, judgement)
  // A member's name stands for one sandbox, whatever the bytes say, so they need not be looked at.
  if (judgement.isMember) return pass(tunnel, parts, 'nothing')
  const isWeb = DEFAULT_PORTS.includes(destination.port)
  const { value, bytes, isEnded } = await detectProtocol(
    tunnel,
    isWeb || needsInspection ? undefined : QUIET_MS,
  )
  if (stream.destroyed) return
  if (value?.kind === 'tls') return secure(tunnel, parts, { hello: value.hello, needsInspection })
  if (value?.kind === 'http')
    return parts.http.serve({ stream, sandbox, site: { scheme: 'http', destination }, via: tunnel.via })
  const isSilent = bytes.length === 0
  // A client that sends nothing gets no answer.
  if (isSilent && (isEnded || isWeb || needsInspection)) return void stream.destroy()
  if (isWeb || needsInspection)
    return refuseTunnel(tunnel, parts, {
      why: newRefusal(
        isWeb ? 400 : 403,
        isWeb
          ? 'protocol.unknown'
          : judgement.reason === 'request.unseen'
            ? 'request.unseen'
            : 'tls.unopened',
        isWeb
          ? `the connection to ${hostText(destination)} uses neither HTTP nor TLS`
          : `the rules for ${hostText(destination)} inspect its requests, and this connection is not HTTP`,
        isWeb ? 'other protocols need a rule for their own port' : 'use HTTP',
      ),
      protocol: value ?? 'nothing',
    })
  return pass({ ...tunnel, ...(isEnded && { ended: bytes }) }, parts, value ?? 'nothing')
}

async function pass(
  passed: PassedConnection,
  parts: TunnelParts,
  protocol: Protocol | 'nothing',
): Promise<void> {
  try {
    await passThrough(passed)
  } catch (error) {
    await refuseTunnel(passed, parts, { why: refusalOfError(error), protocol })
  }
}

function detectProtocol({ stream, sandbox }: Tunnel, quietMs?: number) {
  return peekStream(stream, {
    clock: sandbox.parts.clock,
    limit: LONGEST_HELLO,
    withinMs: FIRST_MS,
    quietMs,
    judge: protocolOf,
  })
}

/** Undefined if more bytes are needed. */
export function protocolOf(bytes: Buffer): Protocol | undefined {
  if (bytes.length === 0) return undefined
  if (bytes[0] === HANDSHAKE) {
    const reading = readClientHello(bytes)
    if (reading.state === 'more')
      return bytes.length < LONGEST_HELLO ? undefined : { kind: 'tls', hello: 'bad' }
    return { kind: 'tls', hello: reading.state === 'bad' ? 'bad' : reading.hello }
  }
  const start = bytes.toString('latin1', 0, LONGEST_METHOD)
  const word = /^([A-Z-]+)(.?)/s.exec(start)
  if (!word) return { kind: 'other' }
  if (word[2] === '') return start.length < LONGEST_METHOD ? undefined : { kind: 'other' }
  return { kind: word[2] === ' ' && KNOWN_METHODS.has(word[1] ?? '') ? 'http' : 'other' }
}

function secure(
  tunnel: Tunnel,
  parts: TunnelParts,
  { hello, needsInspection }: { readonly hello: ClientHello | 'bad'; readonly needsInspection: boolean },
): void | Promise<void> {
  const { stream, sandbox, destination, via } = tunnel
  const protocol: Protocol = { kind: 'tls', hello }
  const bad = hello === 'bad' ? BAD_HELLO : checkServerName(sandbox, destination, hello)
  if (bad || hello === 'bad')
    return refuseTunnel(tunnel, parts, {
      why: bad ?? BAD_HELLO,
      protocol,
      alert: bad === BAD_HELLO ? 'decodeError' : 'unrecognizedName',
    })
  if (!needsInspection) return pass(tunnel, parts, protocol)
  if (parts.interceptor && sandbox.spec.authority)
    return parts.interceptor.intercept({ stream, destination, via, sandbox, hello, http: parts.http })
  return refuseTunnel(tunnel, parts, {
    why: newRefusal(
      403,
      'tls.unopened',
      `the rules for ${hostText(destination)} inspect its requests, but this sandbox has no authority to decrypt TLS`,
      'ask the user for a sandbox that trusts a certificate authority of AgentPod',
    ),
    protocol,
  })
}

const BAD_HELLO = newRefusal(400, 'tls.hello', 'the TLS handshake is malformed', 'use another TLS client')

export interface TunnelRefusal {
  readonly why: Refusal
  /** The protocol of the client; if absent, it is detected first. */
  readonly protocol?: Protocol | 'nothing' | undefined
  readonly alert?: Alert | undefined
}

/** Records the refusal and sends it in the protocol of the client. */
export async function refuseTunnel(
  tunnel: Tunnel,
  parts: TunnelParts,
  refused: TunnelRefusal,
): Promise<void> {
  const { stream, sandbox, destination, via, judgement } = tunnel
  const { why, alert = 'accessDenied' } = refused
  const { reason, message } = why
  sandbox.note({ outcome: outcomeOf(why), destination, via, reason, message, judgement })
  const protocol = refused.protocol ?? (await detectProtocol(tunnel, QUIET_MS)).value ?? 'nothing'
  if (stream.destroyed) return
  if (protocol === 'nothing') return void stream.destroy()
  const { clock } = sandbox.parts
  if (protocol.kind === 'tls') {
    const { hello } = protocol
    // If the SNI does not match, the client would not accept a certificate.
    const canAnswerInside =
      hello !== 'bad' && alert === 'accessDenied' && !checkServerName(sandbox, destination, hello)
    if (canAnswerInside && parts.interceptor && sandbox.spec.authority)
      return parts.interceptor.refuseInside(
        { stream, destination, via, sandbox, hello, http: parts.http },
        why,
      )
    return endWith(stream, fatalAlert(alert), clock)
  }
  if (protocol.kind === 'http' || destination.port === 80) return endWithRefusal(stream, why, clock)
  if (destination.port === 443) return endWith(stream, fatalAlert(alert), clock)
  stream.destroy()
}
