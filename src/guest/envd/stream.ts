/** Answers a call with a stream of the guest, with keepalives and a timeout. */
import type { GuestRequest, GuestResponse } from '../../core/guest.ts'
import { systemClock } from '../../util/clock.ts'
import { EnvdRefusal, headerOf, lateAfter, streamed } from './message.ts'

const KEEPALIVE_MS = 90_000
const LONGEST_KEEPALIVE_S = 3600

export interface StreamPlan {
  /** The keepalive message. */
  readonly keepalive: object
  /** Ends only the stream. Left out if the guest enforces the timeout itself. */
  readonly timeoutMs?: number | undefined
  open(signal: AbortSignal): AsyncIterable<object>
}

/** Waits for the first message, so that an unreachable guest is answered with a status. */
export async function answerStream(
  request: GuestRequest,
  signal: AbortSignal,
  plan: StreamPlan,
): Promise<GuestResponse> {
  const left = new AbortController()
  const late = lateAfter(plan.timeoutMs)
  const all = AbortSignal.any([signal, left.signal, ...(late ? [late] : [])])
  const source = inTime(plan.open(all), late)[Symbol.asyncIterator]()
  const first = await source.next()
  const rest = keptAlive(source, first, { message: plan.keepalive, everyMs: keepaliveOf(request) })
  // A pending read of the guest's next message ends only by the signal.
  return streamed(rest, () => left.abort())
}

function keepaliveOf(request: GuestRequest): number {
  const seconds = Number(headerOf(request, 'keepalive-ping-interval'))
  const isSaid = Number.isInteger(seconds) && seconds > 0 && seconds <= LONGEST_KEEPALIVE_S
  return isSaid ? seconds * 1000 : KEEPALIVE_MS
}

async function* inTime(source: AsyncIterable<object>, late: AbortSignal | undefined): AsyncGenerator<object> {
  try {
    yield* source
  } catch (error) {
    if (!late?.aborted) throw error
    throw new EnvdRefusal('deadline_exceeded', 'the call timed out')
  }
}

async function* keptAlive(
  source: AsyncIterator<object>,
  first: IteratorResult<object>,
  ping: { readonly message: object; readonly everyMs: number },
): AsyncGenerator<object> {
  let step = first
  try {
    while (!step.done) {
      yield step.value
      const next = source.next()
      // It may fail while a slow client has not yet read a keepalive.
      next.catch(() => undefined)
      for (;;) {
        const said = await soon(next, ping.everyMs)
        if (said) {
          step = said
          break
        }
        yield ping.message
      }
    }
  } finally {
    source.return?.().catch(() => undefined)
  }
}

/** Undefined if it takes longer. */
async function soon<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const cancel = systemClock.after(ms, () => resolve(undefined))
  try {
    return await Promise.race([work, promise])
  } finally {
    cancel()
  }
}
