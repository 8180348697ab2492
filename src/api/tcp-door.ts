/**
 * The door of a TCP listener. The Host says what is meant: the API, or a port of a sandbox. Everything is refused that does
 * not carry what its kind needs: a key for the API, the sandbox's token or a signature for its data plane, the traffic token for a
 * private port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { isSandboxId, type SandboxId } from '../core/id.ts'
import type { Principal } from '../core/principal.ts'
import type { Live } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import type { Keys } from '../engine/keys.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { type Access, isSame, isSigned, type SignedFile } from './access.ts'
import { type Address, DATA_PORT, readHost } from './address.ts'
import {
  answerError,
  attempt,
  attemptUpgrade,
  type Control,
  type Door,
  forwardToGuest,
  SANDBOX_HEADER,
  tunnelToGuest,
} from './data-plane.ts'
import { answerClosed, answerGone, isGone } from './e2b/gone.ts'
import type { OneTimeCodes } from './one-time-codes.ts'
import { PREVIEW_COOKIE, preview, previewCookie, previewUpgrade } from './preview.ts'
import { setPrincipal } from './principal-of.ts'

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
    attempt(response, async () => {
      const target = this.#target(request)
      if (target.kind === 'api') return this.#api(request, response)
      const answer = (error: unknown): void => answerSandboxError(request, response, target, error)
      attempt(
        response,
        () => this.#sandbox(target, request, response),
        (_, error) => answer(error),
      )
    })
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    attemptUpgrade(socket, this.#parts.log, async () => {
      const target = this.#target(request)
      if (target.kind === 'sandbox') {
        if (target.port === DATA_PORT)
          throw refused('upgrade.unknown', 'the data plane takes no upgrade here')
        this.#checkTraffic(target, request)
        const live = this.#live(target.id)
        return previewUpgrade({ live, port: target.port }, request, socket, head)
      }
      this.#checkOrigin(request)
      const who = this.#who(request)
      const ref = request.headers[SANDBOX_HEADER]
      if (typeof ref !== 'string') throw refused('upgrade.unknown', 'nothing here takes an upgrade')
      return tunnelToGuest(this.#parts.engine.live(ref, who), request, socket, head)
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
      const port = Number(request.headers['e2b-sandbox-port'] ?? DATA_PORT)
      return {
        kind: 'sandbox',
        id: id as SandboxId,
        port: Number.isInteger(port) && port > 0 && port < 65536 ? port : DATA_PORT,
      }
    }
    return this.#signedTarget(request) ?? { kind: 'api' }
  }

  /** E2B's signed file addresses name no sandbox when all share one origin: the signature itself tells whose it is. */
  #signedTarget(request: IncomingMessage): Target | undefined {
    const signed = signedFile(request)
    if (!signed) return undefined
    const { engine, access, clock } = this.#parts
    const found = engine
      .list({ labels: {}, all: false })
      .find(({ id }) => isSigned(signed.file, signed.given, access.dataToken(id), clock.now()))
    return found && { kind: 'sandbox', id: found.id, port: DATA_PORT }
  }

  async #api(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#checkOrigin(request)
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
    if (request.method === 'GET' && OPEN.has(path)) {
      this.#parts.control(request, response)
      return
    }
    const who = this.#who(request)
    const ref = request.headers[SANDBOX_HEADER]
    if (typeof ref === 'string') return forwardToGuest(this.#parts.engine.live(ref, who), request, response)
    setPrincipal(request, who)
    this.#parts.control(request, response)
  }

  #who(request: IncomingMessage): Principal {
    const header = request.headers['x-api-key']
    const bearer = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
    return this.#parts.keys.verify(typeof header === 'string' ? header : bearer)
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
    if (target.port === DATA_PORT) {
      const live = this.#live(target.id)
      this.#checkData(target.id, request)
      return forwardToGuest(live, request, response)
    }
    if ((request.url ?? '').startsWith(`${OPEN_PREVIEW}?`))
      return this.#openPreview(target, request, response)
    const live = this.#live(target.id)
    this.#checkTraffic(target, request)
    return preview({ live, port: target.port }, request, response)
  }

  #live(id: SandboxId): Live {
    if (!isSandboxId(id))
      throw new AgentPodError({ code: 'not_found', reason: 'sandbox.unknown', message: 'no such sandbox' })
    return this.#parts.engine.live(id)
  }

  #checkData(id: SandboxId, request: IncomingMessage): void {
    const path = (request.url ?? '/').split('?', 1)[0]
    if (path === '/health') return
    const token = this.#parts.access.dataToken(id)
    const given = request.headers['x-access-token']
    if (isSame(typeof given === 'string' ? given : undefined, token)) return
    const signed = signedFile(request)
    if (signed && isSigned(signed.file, signed.given, token, this.#parts.clock.now())) return
    throw new AgentPodError({
      code: 'unauthenticated',
      reason: signed ? 'signature.invalid' : 'token.invalid',
      message: signed
        ? 'the signature is invalid or has expired'
        : 'the access token of the sandbox is missing or wrong',
    })
  }

  #checkTraffic(target: Target & { kind: 'sandbox' }, request: IncomingMessage): void {
    const { engine, access } = this.#parts
    if (engine.get(target.id).spec.ports?.public) return
    const token = access.trafficToken(target.id)
    const given = request.headers['e2b-traffic-access-token']
    if (isSame(typeof given === 'string' ? given : previewCookie(request), token)) return
    throw new AgentPodError({
      code: 'permission_denied',
      reason: 'port.private',
      message: `port ${target.port} of this sandbox is private`,
      hint: '`agentpod port NAME PORT` prints an address that opens it in a browser',
    })
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

function signedFile(request: IncomingMessage): { file: SignedFile; given: string } | undefined {
  const url = new URL(request.url ?? '/', 'http://sandbox')
  const given = url.searchParams.get('signature')
  if (url.pathname !== '/files' || given === null) return undefined
  return {
    given,
    file: {
      path: url.searchParams.get('path') ?? '',
      operation: request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write',
      user: url.searchParams.get('username') ?? '',
      expiration: url.searchParams.get('signature_expiration') ?? undefined,
    },
  }
}

function answerSandboxError(
  request: IncomingMessage,
  response: ServerResponse,
  target: Target & { kind: 'sandbox' },
  error: unknown,
): void {
  if (isGone(error)) answerGone(request, response, target.id)
  else if (isAgentPodError(error) && error.reason === 'port.closed') answerClosed(request, response, target)
  else answerError(response, error)
}

function refused(reason: string, message: string, hint?: string): AgentPodError {
  return new AgentPodError({ code: 'permission_denied', reason, message, hint })
}
