/** One exchange with podd: what is asked, what is answered, and what went wrong. What it says is hostile bytes, kept bounded. */
import { Readable } from 'node:stream'
import { AgentPodError, ERROR_CODES, type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../core/guest.ts'
import { encodeFrame, FrameError, FrameReader } from '../util/connect-frame.ts'
import { replaceHidden } from '../util/hidden-characters.ts'

const STREAM = 'application/connect+json'
export const ANSWER_BYTES = 64 * 1024

/** How a process inside ended. */
export interface InsideExit {
  readonly exitCode: number
  readonly signal: string | undefined
  readonly oomKilled: boolean
}

/** A call that nobody waits for any more is not a sandbox that does not answer. */
export async function forward(
  guest: Guest,
  request: GuestRequest,
  signal: AbortSignal,
): Promise<GuestResponse> {
  try {
    return await guest.forward(request, { signal })
  } catch (error) {
    throw signal.aborted ? canceled(error) : error
  }
}

/** The messages of a stream that begins with one message of ours. Leaving the loop closes it. */
export async function* messages(
  guest: Guest,
  request: {
    readonly path: string
    readonly message: unknown
    readonly headers?: Readonly<Record<string, string>>
  },
  signal: AbortSignal,
): AsyncGenerator<Record<string, unknown>> {
  const body = encodeFrame(request.message)
  const response = await forward(
    guest,
    {
      method: 'POST',
      path: request.path,
      headers: { 'content-type': STREAM, 'content-length': String(body.length), ...request.headers },
      body: Readable.from([body], { objectMode: false }),
    },
    signal,
  )
  if (response.status !== 200) throw await refused(response)
  yield* framesOf(response, signal)
}

async function* framesOf(
  response: GuestResponse,
  signal: AbortSignal,
): AsyncGenerator<Record<string, unknown>> {
  const reader = new FrameReader()
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      for (const { last, message } of reader.push(chunk)) {
        const fields = message as Record<string, unknown>
        if (last) {
          if (fields['error']) throw failed(fields['error'])
          return
        }
        yield (fields['event'] ?? fields) as Record<string, unknown>
      }
    }
  } catch (error) {
    if (isAgentPodError(error)) throw error
    if (signal.aborted) throw canceled(error)
    if (error instanceof FrameError) throw malformed(error)
    throw cut(error)
  } finally {
    response.body.destroy()
  }
}

/** From the `end` event of a stream, or from a list of processes. */
export function exitOf(end: Record<string, unknown>): InsideExit {
  const signal = end['signal']
  return {
    exitCode: Number(end['exitCode'] ?? 0),
    signal: typeof signal === 'string' ? signal : undefined,
    oomKilled: end['oomKilled'] === true,
  }
}

export function parsed(said: string): unknown {
  try {
    return JSON.parse(said)
  } catch (error) {
    throw malformed(error)
  }
}

export function userHeader(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString('base64')}`
}

export async function text({ body }: GuestResponse, most: number): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > most) throw malformed(new Error('the answer is too long'))
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString('utf8')
}

export async function refused(response: GuestResponse): Promise<AgentPodError> {
  const said = await text(response, ANSWER_BYTES).catch(() => '')
  try {
    const body = JSON.parse(said) as Record<string, unknown>
    return failed(body['error'] ?? body)
  } catch {
    return failed({ message: `status ${response.status}` })
  }
}

/** Which of our codes the sandbox itself gave as the reason. */
export function saidCode(error: unknown): ErrorCode | undefined {
  return isAgentPodError(error) ? (error.details['said'] as ErrorCode | undefined) : undefined
}

/** SECURITY: these are a sandbox's words: bounded, and nothing that a terminal obeys. */
export function failed(error: unknown): AgentPodError {
  const { code, message } = error as { code?: unknown; message?: unknown }
  const words = replaceHidden(String(message).slice(0, 300))
  if (code === 'deadline_exceeded')
    return new AgentPodError({ code, reason: 'inside.late', message: 'its time was over before it ended' })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'inside.failed',
    message: `the sandbox could not do it: ${words}`,
    details: { said: ERROR_CODES.find((one) => one === code) },
  })
}

export function malformed(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'guest.protocol',
    message: 'the sandbox answered in a way that is not known',
    cause,
  })
}

export function canceled(cause: unknown): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'it was canceled', cause })
}

export function cut(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'stream.cut',
    message: 'the connection into the sandbox was cut',
    cause,
  })
}
