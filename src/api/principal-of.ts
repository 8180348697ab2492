/**
 * Who a request comes from. The listener that accepts a request marks it; an unmarked request has no rights.
 */
import type { IncomingMessage } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { AgentPodError } from '../core/error.ts'
import type { Principal } from '../core/principal.ts'

const PRINCIPAL = Symbol('principal')

type Marked = IncomingMessage & { [PRINCIPAL]?: Principal }

export function setPrincipal(request: IncomingMessage, who: Principal): void {
  ;(request as Marked)[PRINCIPAL] = who
}

/**
 * SECURITY: CP-01. Fails closed: a request that no listener marked is refused, whichever route it asks for.
 */
export function principalOf(c: Context): Principal {
  const who = markedPrincipal(c)
  if (who) return who
  throw new AgentPodError({
    code: 'unauthenticated',
    reason: 'principal.missing',
    message: 'the request has no principal: its listener did not authenticate it',
  })
}

/** Undefined where no listener marked the request; for logs only. */
export function markedPrincipal(c: Context): Principal | undefined {
  return (c.env as { incoming?: Marked } | undefined)?.incoming?.[PRINCIPAL]
}

/** What anyone may GET without a key. */
export const OPEN_PATHS: ReadonlySet<string> = new Set(['/health', '/docs', '/openapi.json'])

/**
 * SECURITY: CP-01. Runs before every route, so that a route that never checks its caller is closed as well.
 */
export const needPrincipal: MiddlewareHandler = async (c, next) => {
  const isOpen = c.req.method === 'GET' && OPEN_PATHS.has(c.req.path)
  if (!isOpen) principalOf(c)
  await next()
}

/** Allows only admins. */
export const adminOnly: MiddlewareHandler = async (c, next) => {
  if (!principalOf(c).isAdmin) {
    throw new AgentPodError({
      code: 'permission_denied',
      reason: 'key.scope',
      message: 'this call needs a key with scope admin',
      hint: '`agentpod key create --scope admin` makes one',
    })
  }
  await next()
}
