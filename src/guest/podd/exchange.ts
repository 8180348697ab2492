/**
 * Requests to podd and its answers. SECURITY: answers come out of a sandbox; they are untrusted and bounded.
 */

import { Readable } from 'node:stream'
import { AgentPodError, type ErrorCode, isAgentPodError, isErrorCode } from '../../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../../core/guest.ts'
import { basicAuthorization } from '../../util/basic-authorization.ts'
import { replaceHidden } from '../../util/hidden-characters.ts'
import { encodeFrame, FrameError, FrameReader } from '../../util/stream/connect-frame.ts'
import { readBytes } from '../../util/stream/read-bytes.ts'
import { canceled, connectionLost, GUEST_REFUSED, malformedAnswer } from '../guest-error.ts'

/** Sends a request to podd, as bytes. */
export type Send = NonNullable<Guest['passThrough']>

const STREAM = 'application/connect+json'
const ANSWER_BYTES = 64 * 1024
/** Room for a list of 100,000 files. */
export const LIST_BYTES = 64 * 1024 * 1024

/** Sends a request. A call that the caller aborted fails with `canceled`, not as an unreachable sandbox. */
export async function sendRequest(
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

/** One message, one answer. */
export async function unaryCall(
  send: Send,
  request: { readonly path: string; readonly message: unknown; readonly headers?: RequestHeaders },
  signal: AbortSignal,
): Promise<unknown> {
  const body = Buffer.from(JSON.stringify(request.message))
  const headers = { 'content-type': 'application/json', ...lengthOf(body), ...request.headers }
  const asked = { method: 'POST', path: request.path, headers, body: bodyOf(body) }
  return jsonOf(await sendRequest(send, asked, signal), signal)
}

/** The JSON of an answer; throws if podd refused the call. */
export async function jsonOf(response: GuestResponse, signal: AbortSignal): Promise<unknown> {
  if (response.status < 200 || response.status > 299) throw await refusalFrom(response)
  return parseAnswerJson(await textOf(response, LIST_BYTES, signal))
}

export type RequestHeaders = Readonly<Record<string, string>>

export function bodyOf(body: Buffer): Readable {
  return Readable.from([body], { objectMode: false })
}

export function lengthOf(body: Buffer): RequestHeaders {
  return { 'content-length': String(body.length) }
}

/** Sends one message and yields the messages of the answer. Leaving the loop closes the stream. */
export async function* streamCall(
  send: Send,
  request: { readonly path: string; readonly message: unknown; readonly headers?: RequestHeaders },
  signal: AbortSignal,
): AsyncGenerator<Record<string, unknown>> {
  const body = encodeFrame(request.message)
  const headers = { 'content-type': STREAM, ...lengthOf(body), ...request.headers }
  const asked = { method: 'POST', path: request.path, headers, body: bodyOf(body) }
  const response = await sendRequest(send, asked, signal)
  if (response.status !== 200) throw await refusalFrom(response)
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
    if (error instanceof FrameError) throw malformedAnswer(error)
    throw connectionLost(error)
  } finally {
    response.body.destroy()
  }
  throw connectionLost()
}

export function parseAnswerJson(said: string): unknown {
  try {
    return JSON.parse(said)
  } catch (error) {
    throw malformedAnswer(error)
  }
}

export function userHeader(user: string | undefined): RequestHeaders {
  if (user === undefined) return {}
  return { authorization: basicAuthorization(user) }
}

async function textOf({ body }: GuestResponse, most: number, signal?: AbortSignal): Promise<string> {
  const tooLong = (): Error => malformedAnswer(new Error('the answer is too long'))
  try {
    return (await readBytes(body, most, tooLong)).toString('utf8')
  } catch (error) {
    if (isAgentPodError(error)) throw error
    throw signal?.aborted ? canceled(error) : connectionLost(error)
  }
}

export async function refusalFrom(response: GuestResponse): Promise<AgentPodError> {
  const said = await textOf(response, ANSWER_BYTES).catch(() => '')
  try {
    const body = JSON.parse(said) as Record<string, unknown>
    return refusal(body['error'] ?? body, response.status)
  } catch {
    return refusal({ message: `status ${response.status}` }, response.status)
  }
}

/** Statuses that are more precise than the code. */
const REASONS: Readonly<Record<number, string>> = { 413: 'guest.too_large', 507: 'disk.full' }

/** SECURITY: the text comes from a sandbox, so it is cut and control characters are replaced. */
function refusal(error: unknown, status = 0): AgentPodError {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return new AgentPodError({
    code: codeOf(code, status),
    reason: REASONS[status] ?? GUEST_REFUSED,
    message: replaceHidden(String(message).slice(0, 300)),
    retry: 'no',
  })
}

function codeOf(code: unknown, status: number): ErrorCode {
  if (code === 'unimplemented') return 'unsupported'
  if (isErrorCode(code)) return code
  return status === 404 ? 'not_found' : 'failed_precondition'
}
