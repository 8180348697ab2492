/** Reading the beginning of a stream and leaving the rest of it to whoever comes next. */
import type { Duplex } from 'node:stream'
import type { Clock } from '../util/clock.ts'

export interface Peeked<T> {
  /** Undefined where the stream ended, the time was up or the limit was reached before there was an answer. */
  readonly value: T | undefined
  /** Still to be read from the stream, unless it has ended. */
  readonly bytes: Buffer
  readonly isEnded: boolean
}

export interface PeekOptions<T> {
  readonly clock: Clock
  readonly limit: number
  readonly withinMs: number
  /** Asked at each arrival with everything so far; undefined wants more. */
  readonly judge: (bytes: Buffer) => T | undefined
  /** How long to wait for the first byte, where that is shorter. */
  readonly quietMs?: number | undefined
}

/** Looks at what comes first without taking it. Rejects never: a broken stream is an ended one. */
export function peek<T>(stream: Duplex, options: PeekOptions<T>): Promise<Peeked<T>> {
  const { clock, limit, withinMs, judge, quietMs } = options
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const finish = (value: T | undefined, isEnded: boolean): void => {
      for (const cancel of cancels) cancel()
      stream.off('readable', onReadable)
      for (const event of ENDS) stream.off(event, onEnd)
      // In the same turn as the read, so that a stream whose end has come does not say so while this is out of it.
      if (!isEnded && bytes.length > 0) stream.unshift(bytes)
      resolve({ value, bytes, isEnded })
    }
    const onEnd = (): void => finish(undefined, true)
    const onReadable = (): void => {
      const chunk = stream.read() as Buffer | null
      if (chunk === null) return
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      const value = judge(bytes)
      if (value !== undefined || bytes.length >= limit) finish(value, false)
    }
    const cancels = [clock.after(withinMs, () => finish(undefined, stream.destroyed))]
    if (quietMs !== undefined)
      cancels.push(clock.after(quietMs, () => bytes.length === 0 && finish(undefined, stream.destroyed)))
    if (stream.destroyed || stream.readableEnded) return onEnd()
    // Whoever read before may have asked for more to come by itself; it would come to nobody while this has none of it.
    stream.pause()
    for (const event of ENDS) stream.on(event, onEnd)
    stream.on('readable', onReadable)
    // What an earlier look gave back raises no event of its own.
    if (stream.readableLength > 0) onReadable()
  })
}

const ENDS = ['end', 'close', 'error'] as const

/** Takes exactly that many bytes; undefined where they do not come. */
export function take(
  stream: Duplex,
  length: number,
  options: { readonly clock: Clock; readonly withinMs: number },
): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const finish = (bytes: Buffer | undefined): void => {
      cancel()
      stream.off('readable', onReadable)
      for (const event of ENDS) stream.off(event, onEnd)
      resolve(bytes)
    }
    const onEnd = (): void => finish(undefined)
    const onReadable = (): void => {
      const bytes = stream.read(length) as Buffer | null
      if (bytes !== null) finish(bytes.length === length ? bytes : undefined)
    }
    const cancel = options.clock.after(options.withinMs, onEnd)
    if (stream.destroyed || stream.readableEnded) return onEnd()
    stream.pause()
    for (const event of ENDS) stream.on(event, onEnd)
    stream.on('readable', onReadable)
    if (stream.readableLength >= length) onReadable()
  })
}
