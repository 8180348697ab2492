/** Headers that keep browsers from misusing answers of the API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AgentPodError } from '../../core/error.ts'

/** SECURITY: CP-05, CP-10. Sent with every answer of the API; a route may add its own. */
const HARDENING = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

export function addHardening(response: ServerResponse): void {
  for (const [name, value] of Object.entries(HARDENING)) response.setHeader(name, value)
}

/** The page that a program inside serves sets its own headers. */
export function removeHardening(response: ServerResponse): void {
  for (const name of Object.keys(HARDENING)) response.removeHeader(name)
}

/** SECURITY: CP-09. A script served by a sandbox must not install itself between a browser and the API. */
export function refuseServiceWorker(request: IncomingMessage): void {
  if (request.headers['service-worker'] === undefined) return
  throw new AgentPodError({
    code: 'permission_denied',
    reason: 'origin.worker',
    message: 'service workers are not allowed here',
  })
}
