/**
 * The listener on TCP. The Host header says what a request is for: the API or a port of a sandbox. Each needs
 * its own proof: a key for the API, the sandbox's token or a signature for its data plane, the traffic token
 * for a private port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import { isSandboxId, type SandboxId } from '../../core/id.ts'
import { LOCAL, type Principal } from '../../core/principal.ts'
import type { GuestConnection } from '../../engine/context.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ExchangeLimit } from '../../engine/exchange-limit.ts'
import type { Keys } from '../../engine/keys.ts'
import type { Log } from '../../telemetry/log.ts'
import { forwardToGuest, SANDBOX_HEADER, tunnelToGuest } from '../data-plane/forward-to-guest.ts'
import {
  forwardToPort,
  forwardUpgradeToPort,
  PREVIEW_COOKIE,
  type PreviewTarget,
  previewCookie,
} from '../data-plane/port-preview.ts'
import { type FoundGuest, findGuest } from '../data-plane/reach-guest.ts'
import { markAuthenticated } from '../http/connections.ts'
import type { RateLimit } from '../http/rate-limit.ts'
import { traceOf } from '../http/trace.ts'
import { OPEN_PATHS, setPrincipal } from '../principal-of.ts'
import { addHardening, refuseServiceWorker, removeHardening } from './browser-headers.ts'
import type { DataPlaneDialect, SandboxTarget } from './data-plane-dialect.ts'
import {
  answerError,
  attempt,
  attemptUpgrade,
  type ControlPlane,
  type FrontDoor,
  requestPath,
} from './front-door.ts'
import { readHost } from './host-address.ts'
import type { OneTimeCodes } from './one-time-codes.ts'
import { isSameToken, type SandboxTokens } from './sandbox-tokens.ts'

export interface TcpDoorParts {
  readonly engine: Engine
  readonly keys: Keys
  readonly tokens: SandboxTokens
  readonly codes: OneTimeCodes
  readonly dialect: DataPlaneDialect
  readonly log: Log
  readonly control: ControlPlane
  /** Subdomains of these are sandboxes. */
  readonly domains: readonly string[]
  /** Further names of the API. */
  readonly names: readonly string[]
  /** Control-plane requests of one key. */
  readonly rateLimit: RateLimit
  /** Open exchanges with the sandboxes of one owner. */
  readonly exchanges: ExchangeLimit
}

/** Where a browser trades a one-time code for the cookie of a private port. */
const OPEN_PREVIEW = '/_agentpod/open'

export function tcpDoor(parts: TcpDoorParts): FrontDoor {
  return new TcpDoor(parts)
}

type Target = { readonly kind: 'api' } | SandboxTarget

class TcpDoor implements FrontDoor {
  readonly #parts: TcpDoorParts

  constructor(parts: TcpDoorParts) {
    this.#parts = parts
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const { dialect } = this.#parts
    addHardening(response)
    attempt(
      response,
      async () => {
        const target = this.#target(request)
        if (target.kind === 'api' || target.port === dialect.dataPort) refuseServiceWorker(request)
        if (target.kind === 'api') return this.#api(request, response)
        attempt(
          response,
          () => this.#sandbox(target, request, response),
          (_, error) => {
            addHardening(response)
            dialect.answerSandboxError(request, response, target, error)
          },
        )
      },
      this.#isForDialect(request) ? dialect.answerError : answerError,
    )
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    attemptUpgrade(socket, this.#parts.log, async () => {
      const target = this.#target(request)
      if (target.kind === 'sandbox') {
        if (target.port === this.#parts.dialect.dataPort)
          throw refused('upgrade.unknown', 'the data plane does not accept upgrades')
        const guest = this.#find(target.id, request)
        const keyOwner = this.#checkTraffic(target, request)
        this.#hideKey(request)
        return await this.#exchange(
          guest,
          { owner: this.#ownerOf(target.id), keyOwner, stream: socket },
          (live) => forwardUpgradeToPort({ live, ...this.#preview(target) }, request, socket, head),
        )
      }
      this.#checkOrigin(request)
      const who = this.#who(request)
      const ref = request.headers[SANDBOX_HEADER]
      if (typeof ref !== 'string')
        throw refused('upgrade.unknown', `an upgrade needs the header ${SANDBOX_HEADER}`)
      const guest = findGuest(this.#parts.engine, ref, who, request)
      return await this.#exchange(guest, { owner: who.owner, keyOwner: who.owner, stream: socket }, (live) =>
        tunnelToGuest(live, request, socket, head),
      )
    })
  }

  #target(request: IncomingMessage): Target {
    const address = readHost(request.headers.host, this.#parts.domains, this.#parts.names)
    if (address.kind === 'unknown') {
      throw refused(
        'host.unknown',
        'the Host header does not name this server',
        'use localhost, or start the server with --host NAME',
      )
    }
    if (address.kind === 'sandbox') return address
    return this.#parts.dialect.targetOf(request) ?? { kind: 'api' }
  }

  async #api(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#checkOrigin(request)
    const path = requestPath(request)
    if (request.method === 'GET' && OPEN_PATHS.has(path) && request.headers[SANDBOX_HEADER] === undefined) {
      await this.#parts.control(request, response)
      return
    }
    const who = this.#who(request)
    const trace = traceOf(response)
    if (trace) trace.who = who.owner
    const ref = request.headers[SANDBOX_HEADER]
    if (typeof ref === 'string') {
      const guest = findGuest(this.#parts.engine, ref, who, request)
      return await this.#exchange(
        guest,
        { owner: who.owner, keyOwner: who.owner, stream: response },
        (live) => forwardToGuest(live, request, response),
      )
    }
    this.#parts.rateLimit.take(who.owner)
    setPrincipal(request, who)
    // A DELETE is short, and may be the call that revokes this key.
    if (request.method !== 'DELETE') this.#endWithKey(who.owner, response)
    await this.#parts.control(request, response)
  }

  async #sandbox(target: SandboxTarget, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { dialect } = this.#parts
    const isData = target.port === dialect.dataPort
    const trace = traceOf(response)
    if (trace) trace.route = isData ? 'data' : 'preview'
    if (!isData && (request.url ?? '').startsWith(`${OPEN_PREVIEW}?`))
      return this.#openPreview(target, request, response)
    const guest = this.#find(target.id, request)
    const keyOwner = isData ? this.#checkData(target.id, request) : this.#checkTraffic(target, request)
    this.#hideKey(request)
    return await this.#exchange(
      guest,
      { owner: this.#ownerOf(target.id), keyOwner, stream: response },
      (live) => {
        if (isData) return forwardToGuest(live, request, response, dialect.fileRules)
        removeHardening(response)
        return forwardToPort({ live, ...this.#preview(target) }, request, response)
      },
    )
  }

  /**
   * One exchange with a guest: counts against the owner's limit, wakes the sandbox if needed, and ends with
   * the key of `keyOwner`, where one was needed.
   */
  async #exchange(
    guest: FoundGuest,
    o: {
      readonly owner: string
      readonly keyOwner: string | undefined
      readonly stream: ServerResponse | Duplex
    },
    use: (live: GuestConnection) => Promise<void>,
  ): Promise<void> {
    using _ = this.#enter(o.owner)
    const live = await guest.reach()
    this.#endWithKey(o.keyOwner, o.stream)
    return await use(live)
  }

  #enter(owner: string): Disposable {
    const leave = this.#parts.exchanges.enter(owner)
    return { [Symbol.dispose]: leave }
  }

  /** SECURITY: CP-21. An exchange lasts no longer than its owner's key. A public port has no owner. */
  #endWithKey(owner: string | undefined, exchange: ServerResponse | Duplex): void {
    if (owner === undefined) return
    const end = this.#parts.keys.trackExchange(owner, () => exchange.destroy())
    // A pipeline to a response adds nine listeners of its own, and Node warns of a leak at the eleventh.
    exchange.setMaxListeners(exchange.getMaxListeners() + 1)
    exchange.once('close', end)
  }

  #who(request: IncomingMessage): Principal {
    const owner = this.#parts.dialect.ownerByToken(request)
    if (owner !== undefined && this.#parts.keys.mayAct(owner)) {
      markAuthenticated(request)
      return { owner, isAdmin: false }
    }
    const header = request.headers['x-api-key']
    const who = this.#parts.keys.verify(typeof header === 'string' ? header : bearerOf(request))
    this.#hideKey(request)
    markAuthenticated(request)
    return who
  }

  /** SECURITY: CP-12. A key may come as a bearer token, which must not be forwarded to a program inside. */
  #hideKey(request: IncomingMessage): void {
    const bearer = bearerOf(request)
    if (bearer !== undefined && this.#parts.keys.isKnown(bearer)) delete request.headers.authorization
  }

  #ownerOf(id: SandboxId): string {
    return this.#parts.engine.sandboxes.get(id, LOCAL).owner
  }

  /**
   * SECURITY: CP-03, CP-04. A page of another origin is refused, whatever credentials its visitor's browser
   * sends.
   */
  #checkOrigin(request: IncomingMessage): void {
    const { origin, host } = request.headers
    if (origin === undefined) return
    if (origin === `http://${host}` || origin === `https://${host}`) return
    throw refused('origin.foreign', 'requests from other web pages are refused')
  }

  #preview({ id, port }: SandboxTarget): Omit<PreviewTarget, 'live'> {
    return { port, maskHost: this.#parts.engine.sandboxes.get(id, LOCAL).spec.ports?.maskHost }
  }

  #find(id: SandboxId, request: IncomingMessage): FoundGuest {
    if (!isSandboxId(id))
      throw new AgentPodError({ code: 'not_found', reason: 'sandbox.unknown', message: 'no such sandbox' })
    return findGuest(this.#parts.engine, id, LOCAL, request)
  }

  /** The owner whose key the exchange needs; none where the call needs no proof. SECURITY: CP-21. */
  #checkData(id: SandboxId, request: IncomingMessage): string | undefined {
    const owner = this.#ownerOf(id)
    // A token is valid only as long as its owner's key.
    const access = this.#parts.dialect.checkData(request, id, this.#parts.keys.mayAct(owner))
    if (access === 'token') markAuthenticated(request)
    return access === 'open' ? undefined : owner
  }

  /** The owner whose key the exchange needs; none where the port is public. */
  #checkTraffic(target: SandboxTarget, request: IncomingMessage): string | undefined {
    const { engine, tokens, keys, dialect } = this.#parts
    const { owner, spec } = engine.sandboxes.get(target.id, LOCAL)
    if (spec.ports?.public) return undefined
    const token = tokens.trafficToken(target.id)
    const given = dialect.trafficToken(request)
    const isGiven = given === undefined ? this.#hasCookie(request, token) : isSameToken(given, token)
    if (isGiven && keys.mayAct(owner)) {
      markAuthenticated(request)
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
   * SECURITY: CP-04, CP-09. A browser sends the cookie for any page that makes the request, and all sandboxes
   * of one domain are one site. So the cookie counts only for the port's own pages and for a person who
   * follows a link.
   */
  #hasCookie(request: IncomingMessage, token: string): boolean {
    const { origin, host } = request.headers
    const isForeign = origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`
    const site = request.headers['sec-fetch-site']
    const isEmbedded =
      (site === 'cross-site' || site === 'same-site') && request.headers['sec-fetch-mode'] !== 'navigate'
    return !isForeign && !isEmbedded && isSameToken(previewCookie(request), token)
  }

  /**
   * SECURITY: CP-09. The code in the address works once, within a minute; the token itself travels in a
   * cookie.
   */
  #openPreview(target: SandboxTarget, request: IncomingMessage, response: ServerResponse): void {
    const query = new URL(request.url ?? '/', 'http://preview').searchParams
    if (!this.#parts.codes.redeem(query.get('code') ?? '', `${target.id}:${target.port}`)) {
      throw refused(
        'code.invalid',
        'this address has already been used or has expired',
        '`agentpod port NAME PORT` prints a new one',
      )
    }
    const secure = 'encrypted' in request.socket ? '; Secure' : ''
    response.writeHead(303, {
      location: '/',
      'content-length': '0',
      'cache-control': 'no-store',
      'set-cookie': `${PREVIEW_COOKIE}=${this.#parts.tokens.trafficToken(target.id)}; Path=/; HttpOnly; SameSite=Lax${secure}`,
    })
    response.end()
  }

  /** AgentPod's own client names its sandbox in a header, on any path, and reads AgentPod's errors. */
  #isForDialect(request: IncomingMessage): boolean {
    return request.headers[SANDBOX_HEADER] === undefined && this.#parts.dialect.ownsPath(requestPath(request))
  }
}

function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '')?.[1]
}

function refused(reason: string, message: string, hint?: string): AgentPodError {
  return new AgentPodError({ code: 'permission_denied', reason, message, hint })
}
