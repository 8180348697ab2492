/** Joins two connections: copies bytes and the end of each direction, and destroys both if one fails. */
import type { Duplex } from 'node:stream'

export const IDLE_MS = 10 * 60_000

export interface SpliceOptions {
  /** Called with the length of each chunk in either direction; false cuts the connection. */
  readonly spend?: ((bytes: number) => boolean) | undefined
  readonly framesOut?: Duplex | undefined
  readonly framesIn?: Duplex | undefined
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
    if ('setTimeout' in one && typeof one.setTimeout === 'function') one.setTimeout(IDLE_MS, cut)
  }
  const { spend } = options
  if (spend)
    for (const one of [inside, outside])
      one.on('data', (chunk: Buffer) => {
        if (spend(chunk.length)) return
        isOverspent = true
        cut()
      })
  if (options.framesOut) inside.pipe(options.framesOut).pipe(outside)
  else inside.pipe(outside)
  if (options.framesIn) outside.pipe(options.framesIn).pipe(inside)
  else outside.pipe(inside)
  return cut
}
