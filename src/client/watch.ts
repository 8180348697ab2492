/** Watches a directory inside a sandbox. */
import type { IncomingMessage } from 'node:http'
import { AgentPodError } from '../core/error.ts'
import { encodeFrame } from '../util/stream/connect-frame.ts'
import { events } from './event-stream.ts'
import type { Transport } from './transport.ts'

export interface FileChange {
  readonly kind: 'created' | 'written' | 'removed' | 'renamed' | 'mode changed'
  /** Relative to the watched directory. */
  readonly name: string
}

export interface WatchOptions {
  readonly recursive?: boolean | undefined
  readonly signal?: AbortSignal | undefined
  /** Called when the watch is active: all changes from then on are reported. */
  readonly onReady?: (() => void) | undefined
}

const KINDS: Record<string, FileChange['kind']> = {
  EVENT_TYPE_CREATE: 'created',
  EVENT_TYPE_WRITE: 'written',
  EVENT_TYPE_REMOVE: 'removed',
  EVENT_TYPE_RENAME: 'renamed',
  EVENT_TYPE_CHMOD: 'mode changed',
}

export async function* watch(
  transport: Transport,
  headers: Readonly<Record<string, string>>,
  path: string,
  o: WatchOptions,
): AsyncGenerator<FileChange> {
  const response: IncomingMessage = await transport.open({
    method: 'POST',
    path: '/filesystem.Filesystem/WatchDir',
    headers: { ...headers, 'content-type': 'application/connect+json', 'connect-timeout-ms': '0' },
    body: encodeFrame({ path, recursive: o.recursive ?? false }),
    signal: o.signal,
  })
  try {
    for await (const event of events(response, o.signal)) {
      const change = event['filesystem'] as { type?: string; name?: string } | undefined
      if (event['start']) o.onReady?.()
      else if (change) yield { kind: KINDS[change.type ?? ''] ?? 'written', name: change.name ?? '' }
    }
  } finally {
    response.destroy()
  }
  throw new AgentPodError({ code: 'unavailable', reason: 'stream.cut', message: 'the watch ended' })
}
