/** Reads the start of a stream and leaves the rest to the next reader. */
import type { Duplex } from 'node:stream'
import type { Clock } from '../../util/clock.ts'

export interface Peeked<T> {
  /**
   * Undefined if the stream ended, the time ran out or the limit was reached before `judge` returned a value.
   */
  readonly value: T | undefined
  /** The bytes seen. They can still be read from the stream, unless it has ended. */
  readonly bytes: Buffer
  readonly isEnded: boolean
}

export interface PeekOptions<T> {
  readonly clock: Clock
  readonly limit: number
  readonly withinMs: number
  /** Called with all bytes so far whenever some arrive; undefined means that more are needed. */
  readonly judge: (bytes: Buffer) => T | undefined
  /** How long to wait for the first byte, if shorter than `withinMs`. */
  readonly quietMs?: number | undefined
}

/** Looks at the first bytes without consuming them. Never rejects: a broken stream counts as ended. */
export function peekStream<T>(stream: Duplex, options: PeekOptions<T>): Promise<Peeked<T>> {
  const { clock, limit, withinMs, judge, quietMs } = options
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const finish = (value: T | undefined, isEnded: boolean): void => {
      for (const cancel of cancels) cancel()
      stream.off('readable', onReadable)
      for (const event of ENDS) stream.off(event, onEnd)
      // In the same turn as the read: otherwise a stream at its end would emit `end` before the bytes are
      // back.
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
    // An earlier reader may have left the stream flowing, which would lose bytes that are not read here.
    stream.pause()
    for (const event of ENDS) stream.on(event, onEnd)
    stream.on('readable', onReadable)
    // Bytes that an earlier peek put back do not emit `readable`.
    if (stream.readableLength > 0) onReadable()
  })
}

const ENDS = ['end', 'close', 'error'] as const

/** Reads exactly `length` bytes; undefined if the stream ends or the time runs out first. */
export function readExactly(
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
