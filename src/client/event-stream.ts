/** Yields the messages of a Connect stream, and throws its error as an AgentPodError. */
import type { IncomingMessage } from 'node:http'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { FrameError, FrameReader } from '../util/stream/connect-frame.ts'
import { connectError } from './transport.ts'

export async function* events(
  response: IncomingMessage,
  signal: AbortSignal | undefined,
): AsyncGenerator<Record<string, unknown>> {
  const reader = new FrameReader()
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      for (const { last, message } of reader.push(chunk)) {
        const fields = message as Record<string, unknown>
        if (!last) {
          yield (fields['event'] ?? fields) as Record<string, unknown>
        } else if (fields['error']) {
          throw connectError(fields['error'] as Record<string, unknown>, 'the command failed')
        }
      }
    }
  } catch (error) {
    if (isAgentPodError(error)) throw error
    if (error instanceof FrameError) {
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'stream.malformed',
        message: error.message,
        cause: error,
      })
    }
    if (signal?.aborted) {
      throw new AgentPodError({
        code: 'canceled',
        reason: 'canceled',
        message: 'the call was canceled',
        cause: error,
      })
    }
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'stream.cut',
      message: 'the stream was cut',
      cause: error,
    })
  }
}
