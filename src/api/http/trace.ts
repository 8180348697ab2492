/**
 * What the log and the metrics record of a request: its id, which the client gets as a header, its route, its
 * caller and its error. Never a header, a query or a body.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { asAgentPodError } from '../../core/error.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import { type Random, randomWord } from '../../util/random.ts'

export const REQUEST_ID_HEADER = 'agentpod-request-id'

export interface Trace {
  readonly id: string
  /** The route's pattern, or the plane that handled it: few values, whatever clients send. */
  route: string
  who?: string
  error?: unknown
}

const TRACE = Symbol('trace')
type Traced = ServerResponse & { [TRACE]?: Trace }

export function traceOf(response: ServerResponse): Trace | undefined {
  return (response as Traced)[TRACE]
}

/** The trace of a request that reached the routes; undefined if a test calls them without a listener. */
export function traceOfContext(c: Context): Trace | undefined {
  const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing
  return outgoing && traceOf(outgoing)
}

export type Tracer = (request: IncomingMessage, response: ServerResponse) => void

const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Logged only when they fail: every exec is such a request, and would fill the log. */
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
