/**
 * What is known of one request, for the log and the metrics: an id that the client is told, the route that took it, who asked,
 * and what went wrong. Never a header, a query or a body.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { asAgentPodError } from '../core/error.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { type Random, randomWord } from '../util/random.ts'

export const REQUEST_ID_HEADER = 'agentpod-request-id'

export interface Trace {
  readonly id: string
  /** The route's pattern, or which plane took it: a short list, whatever clients send. */
  route: string
  who?: string
  error?: unknown
}

const TRACE = Symbol('trace')
type Traced = ServerResponse & { [TRACE]?: Trace }

export function traceOf(response: ServerResponse): Trace | undefined {
  return (response as Traced)[TRACE]
}

/** The trace of a request that reached the routes; none where a test calls them without a listener. */
export function traceOfContext(c: Context): Trace | undefined {
  const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing
  return outgoing && traceOf(outgoing)
}

export type Tracer = (request: IncomingMessage, response: ServerResponse) => void

const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Each exec is one; a line for each would be most of the log. Those that fail are written. */
const QUIET = new Set(['data', 'preview', '/health', '/metrics'])

export function tracer(parts: {
  readonly log: Log
  readonly metrics: Metrics
  readonly random: Random
}): Tracer {
  const requests = parts.metrics.counter('agentpod_http_requests_total', 'Requests answered.')
  const seconds = parts.metrics.histogram(
    'agentpod_http_request_seconds',
    'Time from a request to the end of its answer.',
    SECONDS,
  )
  const errors = parts.metrics.counter('agentpod_errors_total', 'Errors answered, by code.')
  return (request, response) => {
    const startedAt = performance.now()
    const trace: Trace = { id: randomWord(parts.random, 16), route: 'refused' }
    ;(response as Traced)[TRACE] = trace
    response.setHeader(REQUEST_ID_HEADER, trace.id)
    response.once('close', () => {
      const { route, error } = trace
      const method = METHODS.has(request.method ?? '') ? String(request.method) : 'other'
      const elapsed = performance.now() - startedAt
      requests.add({ route, method, status: String(response.statusCode) })
      seconds.observe({ route }, elapsed / 1000)
      const failure = error === undefined ? undefined : asAgentPodError(error)
      if (failure) errors.add({ code: failure.code })
      if (failure?.code === 'internal') parts.log.error('request failed', { request: trace.id, route, error })
      else if (!QUIET.has(route) || response.statusCode >= 500) {
        parts.log.info('request', {
          request: trace.id,
          method,
          route,
          status: response.statusCode,
          ms: Math.round(elapsed),
          who: trace.who,
          reason: failure?.reason,
          cut: response.writableFinished ? undefined : true,
        })
      }
    })
  }
}
