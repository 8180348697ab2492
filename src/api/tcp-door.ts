/**
 * The door of a TCP listener. The Host says what is meant: the API, or a port of a sandbox. Everything is refused that does
 * not carry what its kind needs: a key for the API, the sandbox's token or a signature for its data plane, the traffic token for a
 * private port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { AgentPodError, invalid, isAgentPodError } from '../core/error.ts'
import { isSandboxId, type SandboxId } from '../core/id.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { Live } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import type { Keys } from '../engine/keys.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { type Access, isExpired, isSame, isSigned, type SignedFile } from './access.ts'
import { type Address, DATA_PORT, readHost } from './address.ts'
import { vouchFor } from './connections.ts'
import {
  answerError,
  attempt,
  attemptUpgrade,
  type Control,
  type Door,
  forwardToGuest,
  hasBody,
  SANDBOX_HEADER,
  tunnelToGuest,
} from './data-plane.ts'
import { answerE2bError, answerEnvdError, isE2bPath } from './e2b/error-response.ts'
import { answerClosed, answerGone, isGone } from './e2b/gone.ts'
import type { OneTimeCodes } from './one-time-codes.ts'
import { PREVIEW_COOKIE, type PreviewTarget, preview, previewCookie, previewUpgrade } from './preview.ts'
import { setPrincipal } from './principal-of.ts'
import type { RateLimit } from './rate-limit.ts'
import type { Slots } from './slots.ts'
import { traceOf } from './trace.ts'
import { lookIn, wake } from './way-in.ts'

export interface TcpDoorParts {
  readonly engine: Engine
  readonly keys: Keys
  readonly access: Access
  readonly codes: OneTimeCodes
  readonly clock: Clock
  readonly log: Log
  readonly control: Control
  /** Subdomains of these are sandboxes. */
  readonly domains: readonly string[]
  /** Further names of the API. */
  readonly names: readonly string[]
  /** Control-plane requests of one key. */
  readonly rateLimit: RateLimit
  /** Exchanges with the insides of one owner's sandboxes. */
  readonly slots: Slots
}

/** What needs no key. */
const OPEN = new Set(['/health', '/docs', '/openapi.json'])
/** Where a browser trades a one-time code for the cookie of a private port. */
const OPEN_PREVIEW = '/_agentpod/open'

export function tcpDoor(parts: TcpDoorParts): Door {
  return new TcpDoor(parts)
}

type Target =
  | { readonly kind: 'api' }
  | { readonly kind: 'sandbox'; readonly id: SandboxId; readonly port: number }

class TcpDoor implements Door {
  readonly #parts: TcpDoorParts

  constructor(parts: TcpDoorParts) {
    this.#parts = parts
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    harden(response)
    attempt(
      response,
      async () => {
        const target = this.#target(request)
        if (target.kind === 'api' || target.port === DATA_PORT) refuseServiceWorker(request)
        if (target.kind === 'api') return this.#api(request, response)
        const answer = (error: unknown): void => answerSandboxError(request, response, target, error)
        attempt(
          response,
          () => this.#sandbox(target, request, response),
          (_, error) => answer(error),
        )
      },
      speaksE2b(request) ? answerE2bError : answerError,
    )
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    attemptUpgrade(socket, this.#parts.log, async () => {
      const target = this.#target(request)
      if (target.kind === 'sandbox') {
        if (target.port === DATA_PORT)
          throw refused('upgrade.unknown', 'the data plane takes no upgrade here')
        const look = this.#look(target.id, request)
        const owner = this.#checkTraffic(target, request)
        this.#hideKey(request)
        using _ = this.#enter(this.#ownerOf(target.id))
        const live = look ?? (await this.#wake(target.id, request))
        this.#actFor(owner, socket)
        return await previewUpgrade({ live, ...this.#preview(target) }, request, socket, head)
      }
      this.#checkOrigin(request)
      const who = this.#who(request)
      const ref = request.headers[SANDBOX_HEADER]
      if (typeof ref !== 'string') throw refused('upgrade.unknown', 'nothing here takes an upgrade')
      const look = lookIn(this.#parts.engine, ref, who, request)
      using _ = this.#enter(who.owner)
      const live = look ?? (await wake(this.#parts.engine, ref, who, request))
      this.#actFor(who.owner, socket)
      return await tunnelToGuest(live, request, socket, head)
    })
  }

  #target(request: IncomingMessage): Target {
    const address: Address = readHost(request.headers.host, this.#parts.domains, this.#parts.names)
    if (address.kind === 'unknown') {
      throw refused(
        'host.unknown',
        'this server does not go by that name',
        'use localhost, or start it with --host NAME',
      )
    }
    if (address.kind === 'sandbox') return address
    const id = request.headers['e2b-sandbox-id']
    if (typeof id === 'string') {
      // An id that cannot be one is a sandbox that is not there.
      const port = String(request.headers['e2b-sandbox-port'] ?? DATA_PORT)
      if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)
        throw invalid('port.malformed', 'a port is from 1 to 65535')
      return { kind: 'sandbox', id: id as SandboxId, port: Number(port) }
    }
    return this.#signedTarget(request) ?? { kind: 'api' }
  }

  /** E2B's signed file addresses name no sandbox when all share one origin: the signature itself tells whose it is. */
  #signedTarget(request: IncomingMessage): Target | undefined {
    const signed = signedFile(request)
    if (!signed) return undefined
    const { engine, access } = this.#parts
    const found = engine
      .list({ labels: {}, all: false })
      .find(({ id }) => isSigned(signed.file, signed.given, access.dataToken(id)))
    if (!found) throw badSignature()
    return { kind: 'sandbox', id: found.id, port: DATA_PORT }
  }

  async #api(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#checkOrigin(request)
    const path = pathOf(request)
    if (request.method === 'GET' && OPEN.has(path) && request.headers[SANDBOX_HEADER] === undefined) {
      await this.#parts.control(request, response)
      return
    }
    const who = this.#who(request)
    const trace = traceOf(response)
    if (trace) trace.who = who.owner
    const ref = request.headers[SANDBOX_HEADER]
    if (typeof ref === 'string') {
      const look = lookIn(this.#parts.engine, ref, who, request)
      using _ = this.#enter(who.owner)
      const live = look ?? (await wake(this.#parts.engine, ref, who, request))
      this.#actFor(who.owner, response)
      return await forwardToGuest(live, request, response)
    }
    this.#parts.rateLimit.take(who.owner)
    setPrincipal(request, who)
    // A DELETE is short, and may be the one that revokes this key.
    if (request.method !== 'DELETE') this.#actFor(who.owner, response)
    await this.#parts.control(request, response)
  }

  #who(request: IncomingMessage): Principal {
    const header = request.headers['x-api-key']
    const who = this.#parts.keys.verify(typeof header === 'string' ? header : bearerOf(request))
    this.#hideKey(request)
    vouchFor(request)
    return who
  }

  /** SECURITY: CP-21. An exchange lasts no longer than its owner's key. A port that is open to all has no owner. */
  #actFor(owner: string | undefined, exchange: ServerResponse | Duplex): void {
    if (owner === undefined) return
    const end = this.#parts.keys.begin(owner, () => exchange.destroy())
    // A pipeline to a response brings nine listeners of its own, and Node warns of a leak at the eleventh.
    exchange.setMaxListeners(exchange.getMaxListeners() + 1)
    exchange.once('close', end)
  }

  /** SECURITY: CP-12. A key may come as a bearer token, which to a program inside would be just another header. */
  #hideKey(request: IncomingMessage): void {
    const bearer = bearerOf(request)
    if (bearer !== undefined && this.#parts.keys.isKnown(bearer)) delete request.headers.authorization
  }

  #ownerOf(id: SandboxId): string {
    return this.#parts.engine.get(id).owner
  }

  #enter(owner: string): Disposable {
    const leave = this.#parts.slots.enter(owner)
    return { [Symbol.dispose]: leave }
  }

  /** SECURITY: CP-03, CP-04. A page of another origin has no business here, whatever its visitor's browser would send. */
  #checkOrigin(request: IncomingMessage): void {
    const { origin, host } = request.headers
    if (origin === undefined) return
    if (origin === `http://${host}` || origin === `https://${host}`) return
    throw refused('origin.foreign', 'requests from other web pages are refused')
  }

  async #sandbox(
    target: Target & { kind: 'sandbox' },
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const trace = traceOf(response)
    if (trace) trace.route = target.port === DATA_PORT ? 'data' : 'preview'
    if (target.port === DATA_PORT) {
      const look = this.#look(target.id, request)
      const owner = this.#checkData(target.id, request)
      this.#hideKey(request)
      using _ = this.#enter(this.#ownerOf(target.id))
      const live = look ?? (await this.#wake(target.id, request))
      this.#actFor(owner, response)
      return await forwardToGuest(live, request, response, 'e2b')
    }
    if ((request.url ?? '').startsWith(`${OPEN_PREVIEW}?`))
      return this.#openPreview(target, request, response)
    const look = this.#look(target.id, request)
    const owner = this.#checkTraffic(target, request)
    this.#hideKey(request)
    using _ = this.#enter(this.#ownerOf(target.id))
    const live = look ?? (await this.#wake(target.id, request))
    this.#actFor(owner, response)
    soften(response)
    return await preview({ live, ...this.#preview(target) }, request, response)
  }

  #preview({ id, port }: { id: SandboxId; port: number }): Omit<PreviewTarget, 'live'> {
    return { port, maskHost: this.#parts.engine.get(id).spec.ports?.maskHost }
  }

  /** SECURITY: only looks: nothing is woken for a request before it has shown what opens the door. */
  #look(id: SandboxId, request: IncomingMessage): Live | undefined {
    if (!isSandboxId(id))
      throw new AgentPodError({ code: 'not_found', reason: 'sandbox.unknown', message: 'no such sandbox' })
    return lookIn(this.#parts.engine, id, LOCAL, request)
  }

  #wake(id: SandboxId, request: IncomingMessage): Promise<Live> {
    return wake(this.#parts.engine, id, LOCAL, request)
  }

  /** The owner for whom it goes on, or none where no token is needed. SECURITY: CP-21. A token is worth what its key is. */
  #checkData(id: SandboxId, request: IncomingMessage): string | undefined {
    if (pathOf(request) === '/health' && !hasBody(request)) return undefined
    const token = this.#parts.access.dataToken(id)
    const owner = this.#ownerOf(id)
    const mayAct = this.#parts.keys.mayAct(owner)
    const given = request.headers['x-access-token']
    if (mayAct && isSame(typeof given === 'string' ? given : undefined, token)) {
      vouchFor(request)
      return owner
    }
    const signed = signedFile(request)
    if (signed && mayAct && isSigned(signed.file, signed.given, token)) {
      if (isExpired(signed.file, this.#parts.clock.now())) throw badSignature('signature is already expired')
      // SECURITY: the guest's parser is another one than ours: of `path=/a;b&path=/c` it would take the second. It gets what
      // was checked and nothing else.
      request.url = addressOf(signed.file)
      return owner
    }
    if (signed) throw badSignature()
    throw new AgentPodError({
      code: 'unauthenticated',
      reason: 'token.invalid',
      message: 'the access token of the sandbox is missing or wrong',
    })
  }

  /** In whose name it may go on; nobody's where the port is open to all. */
  #checkTraffic(target: Target & { kind: 'sandbox' }, request: IncomingMessage): string | undefined {
    const { engine, access, keys } = this.#parts
    const { owner, spec } = engine.get(target.id)
    if (spec.ports?.public) return undefined
    const token = access.trafficToken(target.id)
    const given = request.headers['e2b-traffic-access-token']
    const isGiven = typeof given === 'string' ? isSame(given, token) : this.#hasCookie(request, token)
    if (isGiven && keys.mayAct(owner)) {
      vouchFor(request)
      return owner
    }
    throw new AgentPodError({
      code: 'permission_denied',
      reason: 'port.private',
      message: `port ${target.port} of this sandbox is private`,
      hint: '`agentpod port NAME PORT` prints an address that opens it in a browser',
    })
  }

  /**
   * SECURITY: CP-04, CP-09. A browser sends the cookie whoever wrote the page that asks, and sandboxes of one domain are one
   * site: so it opens the port to the port's own pages and to a person who follows a link, and to nobody else's page.
   */
  #hasCookie(request: IncomingMessage, token: string): boolean {
    const { origin, host } = request.headers
    const isForeign = origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`
    const site = request.headers['sec-fetch-site']
    const isEmbedded =
      (site === 'cross-site' || site === 'same-site') && request.headers['sec-fetch-mode'] !== 'navigate'
    return !isForeign && !isEmbedded && isSame(previewCookie(request), token)
  }

  /** SECURITY: CP-09. What stands in an address works once and for a minute; the token itself travels in a cookie. */
  #openPreview(
    target: Target & { kind: 'sandbox' },
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const query = new URL(request.url ?? '/', 'http://preview').searchParams
    if (!this.#parts.codes.redeem(query.get('code') ?? '', `${target.id}:${target.port}`)) {
      throw refused(
        'code.invalid',
        'this address was used already or is too old',
        '`agentpod port NAME PORT` prints a new one',
      )
    }
    const secure = 'encrypted' in request.socket ? '; Secure' : ''
    response.writeHead(303, {
      location: '/',
      'content-length': '0',
      'cache-control': 'no-store',
      'set-cookie': `${PREVIEW_COOKIE}=${this.#parts.access.trafficToken(target.id)}; Path=/; HttpOnly; SameSite=Lax${secure}`,
    })
    response.end()
  }
}

/** In E2B's words, which its users' programs look for. Who forged one does not learn what was wrong with it. */
function badSignature(message = 'invalid signature'): AgentPodError {
  return new AgentPodError({ code: 'unauthenticated', reason: 'signature.invalid', message })
}

function signedFile(request: IncomingMessage): { file: SignedFile; given: string } | undefined {
  if (pathOf(request) !== '/files') return undefined
  const query = new URLSearchParams((request.url ?? '').slice('/files'.length))
  const given = query.get('signature')
  if (given === null) return undefined
  return {
    given,
    file: {
      path: query.get('path') ?? '',
      operation: request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write',
      user: query.get('username') ?? '',
      expiration: query.get('signature_expiration') ?? undefined,
    },
  }
}

function addressOf({ path, user }: SignedFile): string {
  const query = new URLSearchParams()
  if (path !== '') query.set('path', path)
  if (user !== '') query.set('username', user)
  return `/files?${query}`
}

function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '')?.[1]
}

/** SECURITY: CP-09. A script that a sandbox serves must not come to stand between a browser and the API. */
function refuseServiceWorker(request: IncomingMessage): void {
  if (request.headers['service-worker'] !== undefined)
    throw refused('origin.worker', 'there is no service worker here')
}

/** SECURITY: CP-05, CP-10. What every answer of the API says to a browser; a route may say more. */
const HARDENING = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

function harden(response: ServerResponse): void {
  for (const [name, value] of Object.entries(HARDENING)) response.setHeader(name, value)
}

/** A port's page speaks for itself. */
function soften(response: ServerResponse): void {
  for (const name of Object.keys(HARDENING)) response.removeHeader(name)
}

/** Our own client names its sandbox in a header of ours, on whatever path. */
function speaksE2b(request: IncomingMessage): boolean {
  return request.headers[SANDBOX_HEADER] === undefined && isE2bPath(pathOf(request))
}

function answerSandboxError(
  request: IncomingMessage,
  response: ServerResponse,
  target: Target & { kind: 'sandbox' },
  error: unknown,
): void {
  harden(response)
  if (isGone(error)) answerGone(request, response, target.id)
  else if (isAgentPodError(error) && error.reason === 'port.closed') answerClosed(request, response, target)
  else if (target.port === DATA_PORT) answerEnvdError(response, pathOf(request), error)
  else answerError(response, error)
}

function pathOf(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0] ?? '/'
}

function refused(reason: string, message: string, hint?: string): AgentPodError {
  return new AgentPodError({ code: 'permission_denied', reason, message, hint })
}
