/** A stream of a guest as the answer of a call: begun before it is answered, kept alive, ended by its timeout. */
import type { GuestRequest, GuestResponse } from '../core/guest.ts'
import { systemClock } from '../util/clock.ts'
import { EnvdRefusal, headerOf, lateAfter, streamed } from './envd-message.ts'

const KEEPALIVE_MS = 90_000
const LONGEST_KEEPALIVE_S = 3600

export interface StreamPlan {
  /** What the client has to hear when nothing else is to be said. */
  readonly keepalive: object
  /** Ends the stream, and nothing else; where the guest itself keeps the time, it is left out. */
  readonly timeoutMs?: number | undefined
  open(signal: AbortSignal): AsyncIterable<object>
}

/** Waits for the first message, so that a guest that cannot be reached is told by a status. */
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
  // Whoever waits for the guest's next word hears of the end by the signal alone.
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
    throw new EnvdRefusal('deadline_exceeded', 'the timeout of the call is over')
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
      // It may fail while a client is slow to take a keepalive.
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

/** Undefined when it takes longer. */
async function soon<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const cancel = systemClock.after(ms, () => resolve(undefined))
  try {
    return await Promise.race([work, promise])
  } finally {
    cancel()
  }
}
