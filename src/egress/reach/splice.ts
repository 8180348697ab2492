/** Joins two connections: copies bytes and the end of each direction, and destroys both if one fails. */
import type { Duplex } from 'node:stream'
import { ReadingSocket } from './reading-socket.ts'

export const IDLE_MS = 10 * 60_000

export interface SpliceOptions {
  /** Called with the length of each chunk before it is written; false cuts the connection. */
  readonly spend?: ((bytesIn: number, bytesOut: number) => boolean) | undefined
  readonly framesOut?: Duplex | undefined
  readonly framesIn?: Duplex | undefined
  /** After how long without bytes the connection is cut; 0 for never. */
  readonly idleMs?: number | undefined
}

/** Returns a function that cuts the connection. `onDone` is called once, when both are closed or cut. */
export function splice(
  { inside, outside }: { readonly inside: Duplex; readonly outside: Duplex },
  options: SpliceOptions,
  onDone: (isOverspent: boolean) => void,
): () => void {
  const all = [inside, outside, options.framesOut, options.framesIn].filter((one) => one !== undefined)
  let [isDone, isOverspent] = [false, false]
  const cut = (): void => {
    for (const one of all) one.destroy()
    if (isDone) return
    isDone = true
    onDone(isOverspent)
  }
  for (const one of all) one.on('error', cut)
  for (const one of [inside, outside]) {
    one.on('close', () => {
      // Bytes may still be waiting to be written: the other side closes after it has written them.
      if (inside.destroyed && outside.destroyed) cut()
      else if (one.errored || !one.readableEnded) cut()
    })
    if ('setTimeout' in one && typeof one.setTimeout === 'function')
      one.setTimeout(options.idleMs ?? IDLE_MS, cut)
  }
  const { spend } = options
  const maySpend = (bytesIn: number, bytesOut: number): boolean => {
    if (!spend || spend(bytesIn, bytesOut)) return true
    isOverspent = true
    cut()
    return false
  }
  copy(inside, outside, options.framesOut, (bytes) => maySpend(0, bytes))
  copy(outside, inside, options.framesIn, (bytes) => maySpend(bytes, 0))
  return cut
}

type MaySpend = (bytes: number) => boolean

function copy(from: Duplex, to: Duplex, frames: Duplex | undefined, maySpend: MaySpend): void {
  if (from instanceof ReadingSocket && to instanceof ReadingSocket && !frames)
    return void copyUnread(from, to, maySpend)
  from.on('data', (chunk: Buffer) => maySpend(chunk.length))
  if (frames) from.pipe(frames).pipe(to)
  else from.pipe(to)
}

/** Nothing looks at the bytes, so they are written from the memory that they were read into. */
function copyUnread(from: ReadingSocket, to: ReadingSocket, maySpend: MaySpend): void {
  const end = (): void => {
    if (!to.destroyed) to.end()
  }
  // Returns whether the kernel has taken the bytes; `onWritten` is called later in any case.
  const write = (bytes: Buffer, onWritten: () => void): boolean => {
    if (to.destroyed || to.writableEnded || !maySpend(bytes.length)) return true
    to.write(bytes, onWritten)
    return to.writableLength === 0
  }
  const begin = (): void => {
    if (from.readableEnded) return void end()
    from.once('end', end)
    // Reading the last bytes of a stream schedules its end, so they are written in the same turn.
    const left = from.read() as Buffer | null
    from.takeOver((bytes) => {
      let isKept = false
      isKept = !write(bytes, () => {
        if (isKept) from.continueReading()
      })
      return isKept ? 'kept' : 'done'
    })
    if (!left || write(left, () => from.resume())) from.resume()
  }
  // Later, because the caller of `splice` does not expect `onDone` before it returns.
  process.nextTick(begin)
}
