/**
 * A connection to a target that is allowed, or that must be looked into: what it speaks is found out from its first bytes, and decides whether it is passed
 * through, opened, or ended.
 */
import { METHODS } from 'node:http'
import type { Duplex } from 'node:stream'
import { DEFAULT_PORTS } from '../policy/rule.ts'
import { type Alert, fatalAlert } from './alert.ts'
import { type ClientHello, LONGEST_HELLO, readClientHello } from './client-hello.ts'
import { endWith, endWithRefusal } from './http-answer.ts'
import type { HttpEngine } from './http-engine.ts'
import { peek } from './intake.ts'
import type { Interceptor } from './interceptor.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import { type Passed, passThrough } from './passthrough.ts'
import type { Route } from './reach.ts'
import { outcomeOf, type Refusal, refusal, refusalOfError } from './refusal.ts'
import { checkServerName } from './server-name.ts'
import { hostText, type Target, type Via } from './target.ts'

export interface TunnelParts {
  readonly http: HttpEngine
  readonly interceptor?: Interceptor | undefined
}

export interface Tunnel {
  readonly stream: Duplex
  readonly link: Link
  readonly target: Target
  readonly via: Via
  readonly judgement: Judgement
  /** Where it is known already. */
  readonly route?: Route | undefined
}

type Speech =
  | { readonly kind: 'tls'; readonly hello: ClientHello | 'bad' }
  | { readonly kind: 'http' }
  | { readonly kind: 'other' }

const FIRST_MS = 10_000
/** How long a client on a port of its own is waited for before its server is taken to speak first. */
const QUIET_MS = 300
const HANDSHAKE = 0x16
const LONGEST_METHOD = 32
const KNOWN_METHODS = new Set(METHODS)

export async function enterTunnel(tunnel: Tunnel, parts: TunnelParts): Promise<void> {
  const { stream, link, target, judgement } = tunnel
  const needsLook = link.needsLook(target, judgement)
  const isWeb = DEFAULT_PORTS.includes(target.port)
  const { value, bytes, isEnded } = await listen(tunnel, isWeb || needsLook ? undefined : QUIET_MS)
  if (stream.destroyed) return
  if (value?.kind === 'tls') return secure(tunnel, parts, { hello: value.hello, needsLook })
  if (value?.kind === 'http')
    return parts.http.serve({ stream, link, site: { scheme: 'http', target }, via: tunnel.via })
  const isSilent = bytes.length === 0
  // Who connects and says nothing has asked for nothing.
  if (isSilent && (isEnded || isWeb || needsLook)) return void stream.destroy()
  if (isWeb || needsLook)
    return refuseTunnel(tunnel, parts, {
      why: refusal(
        isWeb ? 400 : 403,
        isWeb
          ? 'protocol.unknown'
          : judgement.reason === 'request.unseen'
            ? 'request.unseen'
            : 'tls.unopened',
        isWeb
          ? `what is said to ${hostText(target)} is neither HTTP nor TLS`
          : `${hostText(target)} has rules that need its requests to be seen, and this is no HTTP`,
        isWeb ? 'other protocols need a rule on their own port' : 'send it as HTTP',
      ),
      heard: value ?? 'nothing',
    })
  return pass({ ...tunnel, ...(isEnded && { ended: bytes }) }, parts, value ?? 'nothing')
}

async function pass(passed: Passed, parts: TunnelParts, heard: Speech | 'nothing'): Promise<void> {
  try {
    await passThrough(passed)
  } catch (error) {
    await refuseTunnel(passed, parts, { why: refusalOfError(error), heard })
  }
}

function listen({ stream, link }: Tunnel, quietMs?: number) {
  return peek(stream, {
    clock: link.parts.clock,
    limit: LONGEST_HELLO,
    withinMs: FIRST_MS,
    quietMs,
    judge: hear,
  })
}

/** Undefined where more is needed to tell. */
export function hear(bytes: Buffer): Speech | undefined {
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
  { hello, needsLook }: { readonly hello: ClientHello | 'bad'; readonly needsLook: boolean },
): void | Promise<void> {
  const { stream, link, target, via } = tunnel
  const heard: Speech = { kind: 'tls', hello }
  const bad = hello === 'bad' ? BAD_HELLO : checkServerName(link, target, hello)
  if (bad || hello === 'bad')
    return refuseTunnel(tunnel, parts, {
      why: bad ?? BAD_HELLO,
      heard,
      alert: bad === BAD_HELLO ? 'decodeError' : 'unrecognizedName',
    })
  if (!needsLook) return pass(tunnel, parts, heard)
  if (parts.interceptor && link.spec.authority)
    return parts.interceptor.intercept({ stream, target, via, link, hello, http: parts.http })
  return refuseTunnel(tunnel, parts, {
    why: refusal(
      403,
      'tls.unopened',
      `${hostText(target)} has rules that need its TLS to be opened, which this sandbox does not allow for`,
      'ask the user for a sandbox that trusts an authority of AgentPod',
    ),
    heard,
  })
}

const BAD_HELLO = refusal(400, 'tls.hello', 'this is not well-formed TLS', 'use another client')

export interface TunnelRefusal {
  readonly why: Refusal
  /** What the client has been heard to speak; left out where nobody has listened. */
  readonly heard?: Speech | 'nothing' | undefined
  readonly alert?: Alert | undefined
}

/** Writes it down and says it in the words of whatever the client speaks. */
export async function refuseTunnel(
  tunnel: Tunnel,
  parts: TunnelParts,
  refused: TunnelRefusal,
): Promise<void> {
  const { stream, link, target, via, judgement } = tunnel
  const { why, alert = 'accessDenied' } = refused
  const { reason, message } = why
  link.note({ outcome: outcomeOf(why), target, via, reason, message, judgement })
  const heard = refused.heard ?? (await listen(tunnel, QUIET_MS)).value ?? 'nothing'
  if (stream.destroyed) return
  if (heard === 'nothing') return void stream.destroy()
  const { clock } = link.parts
  if (heard.kind === 'tls') {
    const { hello } = heard
    // An SNI that was not as asked for has no certificate that would be taken.
    const canSay = hello !== 'bad' && alert === 'accessDenied' && !checkServerName(link, target, hello)
    if (canSay && parts.interceptor && link.spec.authority)
      return parts.interceptor.refuseInside({ stream, target, via, link, hello, http: parts.http }, why)
    return endWith(stream, fatalAlert(alert), clock)
  }
  if (heard.kind === 'http' || target.port === 80) return endWithRefusal(stream, why, clock)
  if (target.port === 443) return endWith(stream, fatalAlert(alert), clock)
  stream.destroy()
}
