/** Requests that a test hands to the routes itself, marked as a listener would mark them. */
import type { IncomingMessage } from 'node:http'
import { setPrincipal } from '../../src/api/principal-of.ts'
import type { Principal } from '../../src/core/principal.ts'

/** The third argument of `app.request`. */
export function asPrincipal(who: Principal): { incoming: IncomingMessage } {
  const incoming = {} as IncomingMessage
  setPrincipal(incoming, who)
  return { incoming }
}
