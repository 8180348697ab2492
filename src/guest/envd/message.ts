/** Messages of envd's protocol: read strictly from a client, written as podd writes them. */
import { Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import * as z from 'zod'
import { type ErrorCode, isAgentPodError } from '../../core/error.ts'
import type { GuestRequest, GuestResponse } from '../../core/guest.ts'
import { encodeFrame } from '../../util/stream/connect-frame.ts'
import { GUEST_REFUSED } from '../guest-error.ts'

const MESSAGE_BYTES = 4 * 1024 * 1024
const FRAME_HEADER_BYTES = 5
const COMPRESSED = 1
const END = 2
const UNARY = 'application/json'
const STREAM = 'application/connect+json'

const STATUS = {
  canceled: 499,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  data_loss: 500,
  unauthenticated: 401,
} as const
type EnvdCode = keyof typeof STATUS

/** An error in envd's form. */
export class EnvdRefusal extends Error {
  readonly code: EnvdCode
  readonly status: number
  /**
   * True if the status is more precise than the code; a stream then fails with the status, not in a frame.
   */
  readonly isByStatus: boolean

  constructor(code: EnvdCode, message: string, status?: number) {
    super(message)
    this.code = code
    this.status = status ?? STATUS[code]
    this.isByStatus = status !== undefined
  }
}

export function invalidMessage(message: string): EnvdRefusal {
  return new EnvdRefusal('invalid_argument', message)
}

export function tooLarge(message: string): EnvdRefusal {
  return new EnvdRefusal('resource_exhausted', message, 413)
}

const OTHERWISE: Readonly<Partial<Record<ErrorCode, EnvdCode>>> = {
  policy_denied: 'permission_denied',
  conflict: 'failed_precondition',
  unsupported: 'unimplemented',
}
const STATUS_OF_REASON: Readonly<Record<string, number>> = { 'guest.too_large': 413, 'disk.full': 507 }

/**
 * The error for the client; undefined if the guest could not be reached, which the front door answers itself.
 */
export function asEnvdRefusal(error: unknown): EnvdRefusal | undefined {
  if (error instanceof EnvdRefusal) return error
  if (!isAgentPodError(error)) return undefined
  const isWayIn = error.code === 'unavailable' || error.code === 'canceled'
  if (isWayIn && error.reason !== GUEST_REFUSED) return undefined
  const code = OTHERWISE[error.code] ?? (error.code in STATUS ? (error.code as EnvdCode) : 'internal')
  return new EnvdRefusal(code, error.message, STATUS_OF_REASON[error.reason])
}

export function headerOf({ headers }: GuestRequest, name: string): string {
  const value = headers[name]
  return (Array.isArray(value) ? value[0] : value) ?? ''
}

/** The body of a unary call. */
export async function readUnary<T>(request: GuestRequest, schema: z.ZodType<T>): Promise<T> {
  requireType(request, UNARY)
  const body = await readBody(request, 'the message')
  return decode(decompress(body, headerOf(request, 'content-encoding')), schema)
}

export async function readBody({ body }: GuestRequest, what: string): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const chunk of (body ?? []) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MESSAGE_BYTES) throw tooLarge(`${what} is larger than ${MESSAGE_BYTES} bytes`)
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}

/** The one message of a call that is answered by a stream. */
export async function readStream<T>(request: GuestRequest, schema: z.ZodType<T>): Promise<T> {
  const messages: T[] = []
  for await (const message of readMessages(request, schema)) {
    if (messages.push(message) > 1) throw invalidMessage('the stream contains more than one message')
  }
  const [first] = messages
  if (first === undefined) throw invalidMessage('the stream contains no message')
  return first
}

/** The messages of a client's stream, as they arrive. */
export async function* readMessages<T>(request: GuestRequest, schema: z.ZodType<T>): AsyncGenerator<T> {
  requireType(request, STREAM)
  const encoding = headerOf(request, 'connect-content-encoding')
  for await (const { flags, payload } of readFrames(request.body)) {
    if (flags & END) return
    yield decode(flags & COMPRESSED ? decompress(payload, encoding) : payload, schema)
  }
}

async function* readFrames(body: Readable | undefined): AsyncGenerator<{ flags: number; payload: Buffer }> {
  let held = Buffer.alloc(0)
  for await (const chunk of (body ?? []) as AsyncIterable<Buffer>) {
    held = Buffer.concat([held, chunk])
    while (held.length >= FRAME_HEADER_BYTES) {
      const [flags, size] = [held.readUInt8(0), held.readUInt32BE(1)]
      if ((flags & ~(COMPRESSED | END)) !== 0) throw invalidMessage(`unknown frame flags ${flags}`)
      if (size > MESSAGE_BYTES) throw tooLarge(`a message of ${size} bytes is larger than ${MESSAGE_BYTES}`)
      if (held.length < FRAME_HEADER_BYTES + size) break
      yield { flags, payload: held.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + size) }
      held = held.subarray(FRAME_HEADER_BYTES + size)
    }
  }
  if (held.length > 0) throw invalidMessage('the stream ends inside a frame')
}

function requireType(request: GuestRequest, want: string): void {
  const got = headerOf(request, 'content-type').split(';', 1)[0]?.trim() ?? ''
  if (got.toLowerCase() === want) return
  const said = JSON.stringify(got.slice(0, 80))
  throw new EnvdRefusal('unimplemented', `content type ${said} is not supported; use ${want}`, 415)
}

function decompress(data: Buffer, encoding: string): Buffer {
  if (encoding === '' || encoding === 'identity') return data
  if (encoding !== 'gzip') throw unknownEncoding(encoding)
  try {
    return gunzipSync(data, { maxOutputLength: MESSAGE_BYTES })
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') {
      throw tooLarge(`the message is larger than ${MESSAGE_BYTES} bytes`)
    }
    throw invalidMessage('the message is not valid gzip')
  }
}

export function unknownEncoding(encoding: string, status?: number): EnvdRefusal {
  const message = `encoding ${JSON.stringify(encoding.slice(0, 40))} is not supported; use gzip`
  return new EnvdRefusal('unimplemented', message, status)
}

const UTF8 = new TextDecoder('utf-8', { fatal: true })

/** Unknown fields are ignored, as proto3 JSON allows for newer clients; wrong types are errors. */
function decode<T>(bytes: Buffer, schema: z.ZodType<T>): T {
  let value: unknown
  try {
    value = JSON.parse(UTF8.decode(bytes).trim() || '{}')
  } catch {
    throw invalidMessage('the message cannot be parsed')
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw invalidMessage(`the message cannot be parsed: ${issue?.path.join('.')}: ${issue?.message}`)
}

/** A field that may be left out or null, which is the same in proto3 JSON. */
export function optional<T>(schema: z.ZodType<T>): z.ZodType<T | undefined> {
  return schema.nullish().transform((value) => value ?? undefined)
}

export const count = z.number().int().nonnegative()
/** A proto3 int64: text or a number. */
export const int64 = z
  .union([z.string().regex(/^-?\d{1,16}$/), z.number()])
  .transform(Number)
  .refine(Number.isSafeInteger, 'must be a whole number')
/** A proto3 bytes field: base64 in either alphabet, padded or not. */
export const bytes = z
  .string()
  .regex(/^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/, 'must be base64')
  .transform((text) => Buffer.from(text, 'base64'))

/** The timeout of a call, if it has one. */
export function timeoutOf(request: GuestRequest): number | undefined {
  const text = headerOf(request, 'connect-timeout-ms')
  if (text === '') return undefined
  if (!/^\d{1,10}$/.test(text)) {
    throw invalidMessage(
      `Connect-Timeout-Ms ${JSON.stringify(text.slice(0, 20))} is not a number of milliseconds`,
    )
  }
  return Number(text) || undefined
}

/** Longer timers of Node fire immediately; a month is as good as no limit. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function lateAfter(timeoutMs: number | undefined): AbortSignal | undefined {
  return timeoutMs === undefined ? undefined : AbortSignal.timeout(Math.min(timeoutMs, LONGEST_TIMER_MS))
}

export function json(status: number, value: unknown): GuestResponse {
  const text = Buffer.from(JSON.stringify(value))
  const headers = { 'content-type': UNARY, 'content-length': String(text.length) }
  return { status, headers, body: Readable.from([text], { objectMode: false }) }
}

/** A stream is refused in its last frame, unless the status is more precise. */
export function refusedWith(refusal: EnvdRefusal, isStream: boolean): GuestResponse {
  const { code, message, status } = refusal
  return isStream && !refusal.isByStatus ? streamed(failing(refusal)) : json(status, { code, message })
}

// biome-ignore lint/correctness/useYield: it has nothing to say before it fails
async function* failing(error: Error): AsyncGenerator<object> {
  throw error
}

type Messages = AsyncIterable<object> | Iterable<object>

/** Frames as a body. An error that the client may see is the last frame; any other error cuts the stream. */
export function streamed(messages: Messages, onLeft?: () => void): GuestResponse {
  return { status: 200, headers: { 'content-type': STREAM }, body: new FrameBody(frames(messages), onLeft) }
}

/** Unlike Readable.from, it does not wait for the next message when it is destroyed, which may never come. */
class FrameBody extends Readable {
  readonly #frames: AsyncIterator<Buffer>
  readonly #onLeft: (() => void) | undefined

  constructor(frames: AsyncIterable<Buffer>, onLeft: (() => void) | undefined) {
    super()
    this.#frames = frames[Symbol.asyncIterator]()
    this.#onLeft = onLeft
  }

  override _read(): void {
    this.#frames.next().then(
      ({ done, value }) => void this.push(done ? null : value),
      (error: Error) => this.destroy(error),
    )
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#onLeft?.()
    this.#frames.return?.().catch(() => undefined)
    done(error)
  }
}

async function* frames(messages: Messages): AsyncGenerator<Buffer> {
  try {
    for await (const message of messages) yield encodeFrame(message)
  } catch (error) {
    const refusal = asEnvdRefusal(error)
    if (!refusal) throw error
    const { code, message } = refusal
    yield encodeFrame({ error: { code, message } }, true)
    return
  }
  yield encodeFrame({}, true)
}
