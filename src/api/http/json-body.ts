import { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import type { Context } from 'hono'
import { AgentPodError, invalid } from '../../core/error.ts'
import { type Clock, systemClock } from '../../util/clock.ts'
import { findJsonFault } from '../../util/json-text.ts'

const LONGEST_BODY_BYTES = 4 * 1024 * 1024
const LONGEST_DRAINED_BYTES = 4 * LONGEST_BODY_BYTES
const DEEPEST = 64

export interface BodyLimits {
  readonly clock: Clock
  /** The longest wait between two pieces of a body. */
  readonly idleMs: number
  /** The longest time for the whole body. */
  readonly totalMs: number
}

/**
 * SECURITY: CP-16. A body that arrives slowly may not hold a connection and its memory for longer than this.
 */
const LIMITS: BodyLimits = { clock: systemClock, idleMs: 10_000, totalMs: 30_000 }

/** Reads a JSON body with limits on size, depth and time. A missing body counts as an empty object. */
export function readJsonBody(c: Context): Promise<unknown> {
  return parseJsonBody(bodyOf(c), LIMITS)
}

/**
 * A listener's own message, because a small body takes several times as long through a web stream. Only
 * requests of the same process have no such message.
 */
function bodyOf(c: Context): Readable {
  const { incoming } = (c.env ?? {}) as { readonly incoming?: unknown }
  if (incoming instanceof IncomingMessage) return incoming
  const { body } = c.req.raw
  return body ? Readable.fromWeb(body as ReadableStream) : Readable.from([])
}

export async function parseJsonBody(body: Readable, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBody(body, limits)
  if (bytes.length === 0) return {}
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    value = JSON.parse(text)
  } catch {
    throw invalid('body.malformed', 'the body is not valid JSON')
  }
  refuseFaults(text)
  return value
}

/** SECURITY: CP-15. */
function refuseFaults(text: string): void {
  const fault = findJsonFault(text, DEEPEST)
  switch (fault?.kind) {
    case 'depth':
      throw invalid('body.too_deep', `the body is nested more than ${DEEPEST} levels deep`)
    case 'dangerous_key':
      throw invalid('body.dangerous_key', `the key ${fault.key} is not allowed in a body`)
    case 'duplicate_key':
      throw invalid('body.duplicate_key', `the key ${JSON.stringify(fault.key)} appears twice`)
    case 'surrogate':
      throw invalid('body.malformed', 'a string in the body has an unpaired surrogate')
  }
}

/** Reads to the end, or throws and leaves the rest: the listener disconnects the sender after the answer. */
function readBody(body: Readable, { clock, idleMs, totalMs }: BodyLimits): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  if (body.destroyed) reject(cutOff())
  const late = (): void => reject(tooSlow())
  const cancelTotal = clock.after(totalMs, late)
  let cancelIdle = clock.after(idleMs, late)
  const chunks: Buffer[] = []
  let size = 0
  const onData = (chunk: Buffer): void => {
    cancelIdle()
    cancelIdle = clock.after(idleMs, late)
    size += chunk.length
    // The rest of a body that is too large is read and dropped, or the sender would never read the answer.
    if (size > LONGEST_BODY_BYTES) chunks.length = 0
    else chunks.push(chunk)
    if (size > LONGEST_DRAINED_BYTES) reject(tooLarge())
  }
  const onEnd = (): void => (size > LONGEST_BODY_BYTES ? reject(tooLarge()) : resolve(Buffer.concat(chunks)))
  const onClose = (): void => reject(cutOff())
  body.on('data', onData).on('end', onEnd).on('error', onClose).on('close', onClose)
  return promise.finally(() => {
    cancelTotal()
    cancelIdle()
    body.off('data', onData).off('end', onEnd).off('error', onClose).off('close', onClose)
  })
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'body.too_large',
    message: `the body is larger than ${LONGEST_BODY_BYTES} bytes`,
  })
}

function cutOff(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'body.cut',
    message: 'the connection was closed before the whole body had arrived',
  })
}

function tooSlow(): AgentPodError {
  return new AgentPodError({
    code: 'deadline_exceeded',
    reason: 'body.slow',
    message: 'the body took too long to arrive',
  })
}
