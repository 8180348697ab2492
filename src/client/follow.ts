/** Events of a sandbox as they happen. */
import type { EventView } from '../api/schema/sandbox.ts'
import type { Transport } from './transport.ts'

export interface FollowOptions {
  /** The last event that the caller has. */
  readonly after?: number | undefined
  readonly type?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Until the sandbox has ended, or the signal says so. A connection that breaks is made again, without gap or repeat. */
export async function* followEvents(
  transport: Transport,
  id: string,
  { after = 0, type, signal }: FollowOptions,
): AsyncGenerator<EventView> {
  let last = after
  for (;;) {
    const query = new URLSearchParams({
      follow: 'true',
      after: String(last),
      ...(type !== undefined && { type }),
    })
    const response = await transport.open({
      method: 'GET',
      path: `/v1/sandboxes/${id}/events?${query}`,
      signal,
    })
    let rest = ''
    response.setEncoding('utf8')
    try {
      for await (const text of response as AsyncIterable<string>) {
        const blocks = (rest + text).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) {
          const data = /^data: (.*)$/m.exec(block)?.[1]
          if (data === undefined) continue
          const event = JSON.parse(data) as EventView
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
