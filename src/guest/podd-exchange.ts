/** One exchange with podd: what is asked, what is answered, and what went wrong. What it says is hostile bytes, kept bounded. */
import { Readable } from 'node:stream'
import { AgentPodError, type ErrorCode, isAgentPodError, isErrorCode } from '../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../core/guest.ts'
import { encodeFrame, FrameError, FrameReader } from '../util/connect-frame.ts'
import { replaceHidden } from '../util/hidden-characters.ts'
import { canceled, cut, GUEST_SAID, malformed } from './guest-error.ts'

/** Sends a request to podd, as bytes. */
export type Send = NonNullable<Guest['passThrough']>

const STREAM = 'application/connect+json'
const ANSWER_BYTES = 64 * 1024
/** A listing of 100,000 files is the longest. */
export const LIST_BYTES = 64 * 1024 * 1024

/** A call that nobody waits for any more is not a sandbox that does not answer. */
export async function exchange(
  send: Send,
  request: GuestRequest,
  signal: AbortSignal,
): Promise<GuestResponse> {
  try {
    return await send(request, { signal })
  } catch (error) {
    throw signal.aborted ? canceled(error) : error
  }
}

/** One message there, one back. */
export async function unary(
  send: Send,
  request: { readonly path: string; readonly message: unknown; readonly headers?: Headers },
  signal: AbortSignal,
): Promise<unknown> {
  const body = Buffer.from(JSON.stringify(request.message))
  const headers = { 'content-type': 'application/json', ...lengthOf(body), ...request.headers }
  const asked = { method: 'POST', path: request.path, headers, body: once(body) }
  return answered(await exchange(send, asked, signal), signal)
}

/** The JSON of an answer; its refusal as an error. */
export async function answered(response: GuestResponse, signal: AbortSignal): Promise<unknown> {
  if (response.status < 200 || response.status > 299) throw await refused(response)
  return parsed(await text(response, LIST_BYTES, signal))
}

export type Headers = Readonly<Record<string, string>>

export function once(body: Buffer): Readable {
  return Readable.from([body], { objectMode: false })
}

export function lengthOf(body: Buffer): Headers {
  return { 'content-length': String(body.length) }
}

/** The messages of a stream that begins with one message of ours. Leaving the loop closes it. */
export async function* messages(
  send: Send,
  request: { readonly path: string; readonly message: unknown; readonly headers?: Headers },
  signal: AbortSignal,
): AsyncGenerator<Record<string, unknown>> {
  const body = encodeFrame(request.message)
  const headers = { 'content-type': STREAM, ...lengthOf(body), ...request.headers }
  const asked = { method: 'POST', path: request.path, headers, body: once(body) }
  const response = await exchange(send, asked, signal)
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
        const fields = (typeof message === 'object' ? (message ?? {}) : {}) as Record<string, unknown>
        if (last) {
          if (fields['error']) throw refusal(fields['error'])
          return
        }
        yield fields
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
  throw cut()
}

export function parsed(said: string): unknown {
  try {
    return JSON.parse(said)
  } catch (error) {
    throw malformed(error)
  }
}

export function userHeader(user: string | undefined): Headers {
  if (user === undefined) return {}
  return { authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` }
}

async function text({ body }: GuestResponse, most: number, signal?: AbortSignal): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > most) throw malformed(new Error('the answer is too long'))
      parts.push(chunk)
    }
  } catch (error) {
    if (isAgentPodError(error)) throw error
    throw signal?.aborted ? canceled(error) : cut(error)
  }
  return Buffer.concat(parts).toString('utf8')
}

export async function refused(response: GuestResponse): Promise<AgentPodError> {
  const said = await text(response, ANSWER_BYTES).catch(() => '')
  try {
    const body = JSON.parse(said) as Record<string, unknown>
    return refusal(body['error'] ?? body, response.status)
  } catch {
    return refusal({ message: `status ${response.status}` }, response.status)
  }
}

/** Where a status says more than the code. */
const REASONS: Readonly<Record<number, string>> = { 413: 'guest.too_large', 507: 'disk.full' }

/** SECURITY: these are a sandbox's words: bounded, and nothing that a terminal obeys. */
function refusal(error: unknown, status = 0): AgentPodError {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return new AgentPodError({
    code: codeOf(code, status),
    reason: REASONS[status] ?? GUEST_SAID,
    message: replaceHidden(String(message).slice(0, 300)),
    retry: 'no',
  })
}

function codeOf(code: unknown, status: number): ErrorCode {
  if (code === 'unimplemented') return 'unsupported'
  if (isErrorCode(code)) return code
  return status === 404 ? 'not_found' : 'failed_precondition'
}
