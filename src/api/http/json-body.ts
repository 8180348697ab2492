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
export async function readJsonBody(request: Request, limits: BodyLimits = LIMITS): Promise<unknown> {
  const bytes = await readBody(request, limits)
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

async function readBody(request: Request, { clock, idleMs, totalMs }: BodyLimits): Promise<Buffer> {
  if (!request.body) return Buffer.alloc(0)
  const reader = request.body.getReader()
  const late = Promise.withResolvers<never>()
  late.promise.catch(() => undefined)
  const give = (): void => late.reject(tooSlow())
  const cancelTotal = clock.after(totalMs, give)
  let cancelIdle = clock.after(idleMs, give)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late.promise])
      if (size > LONGEST_BODY_BYTES && (done || size > LONGEST_DRAINED_BYTES)) throw tooLarge()
      if (done) return Buffer.concat(chunks)
      cancelIdle()
      cancelIdle = clock.after(idleMs, give)
      size += value.length
      // The rest of a body that is too large is read and dropped, or the sender would never read the answer.
      if (size > LONGEST_BODY_BYTES) chunks.length = 0
      else chunks.push(value)
    }
  } catch (error) {
    reader.cancel().catch(() => undefined)
    throw error
  } finally {
    cancelTotal()
    cancelIdle()
  }
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'body.too_large',
    message: `the body is larger than ${LONGEST_BODY_BYTES} bytes`,
  })
}

function tooSlow(): AgentPodError {
  return new AgentPodError({
    code: 'deadline_exceeded',
    reason: 'body.slow',
    message: 'the body took too long to arrive',
  })
}
