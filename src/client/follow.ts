/** Events of a sandbox as they happen. */
import type { EventView } from '../api/schema/sandbox.ts'
import type { Transport } from './transport.ts'

export interface FollowOptions {
  /** The last event that the caller has received. */
  readonly after?: number | undefined
  readonly type?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Yields events until the sandbox has ended or the signal aborts. */
export function followEvents(
  transport: Transport,
  id: string,
  { after, type, signal }: FollowOptions,
): AsyncGenerator<EventView> {
  return followStream(transport, `/v1/sandboxes/${id}/events`, type === undefined ? {} : { type }, {
    after,
    signal,
  })
}

/**
 * Yields numbered events until their subject has ended. Reconnects after a broken connection, without gaps or
 * repeats.
 */
export async function* followStream<T extends { readonly seq: number }>(
  transport: Transport,
  path: string,
  query: Readonly<Record<string, string>>,
  { after = 0, signal }: Pick<FollowOptions, 'after' | 'signal'>,
): AsyncGenerator<T> {
  let last = after
  for (;;) {
    const asked = new URLSearchParams({ ...query, follow: 'true', after: String(last) })
    const response = await transport.open({ method: 'GET', path: `${path}?${asked}`, signal })
    let rest = ''
    response.setEncoding('utf8')
    try {
      for await (const text of response as AsyncIterable<string>) {
        const blocks = (rest + text).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) {
          const data = /^data: (.*)$/m.exec(block)?.[1]
          if (data === undefined) continue
          const event = JSON.parse(data) as T
          last = event.seq
          yield event
        }
      }
      return
    } catch (error) {
      if (signal?.aborted) return
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error
    }
  }
}
