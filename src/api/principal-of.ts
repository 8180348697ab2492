/** Who a request comes from, as its listener found out. A request nobody marked came through the unix socket. */
import type { IncomingMessage } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { AgentPodError } from '../core/error.ts'
import { LOCAL, type Principal } from '../core/principal.ts'

const PRINCIPAL = Symbol('principal')

type Marked = IncomingMessage & { [PRINCIPAL]?: Principal }

export function setPrincipal(request: IncomingMessage, who: Principal): void {
  ;(request as Marked)[PRINCIPAL] = who
}

export function principalOf(c: Context): Principal {
  const incoming = (c.env as { incoming?: Marked } | undefined)?.incoming
  return incoming?.[PRINCIPAL] ?? LOCAL
}

/** Lets admins through and nobody else. */
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
