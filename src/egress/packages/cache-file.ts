/**
 * The file format of the cache: a head of fixed size (one line of JSON, padded with spaces), then the body.
 * The head is written last, because it contains the hash of the body.
 */
import * as z from 'zod'
import { isPlainHeader } from '../http/check-head.ts'
import type { Header } from '../http/head.ts'

export interface CachedHead {
  readonly url: string
  /** The response headers to send again, without the length. */
  readonly headers: readonly Header[]
  readonly bytes: number
  /** Of the body, in hex. */
  readonly sha256: string
  /** The address of the server; absent behind an upstream proxy. */
  readonly address?: string | undefined
}

export const HEAD_BYTES = 4096
export const LARGEST_BODY = 1024 * 1024 * 1024

const header = z.tuple([z.string(), z.string()])
const cachedHead: z.ZodType<CachedHead> = z.strictObject({
  url: z.string(),
  headers: z.array(header).readonly(),
  bytes: z.int().min(1).max(LARGEST_BODY),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  address: z.string().optional(),
})

/** Undefined if the head is too long. */
export function writeHead(head: CachedHead): Buffer | undefined {
  const text = Buffer.from(JSON.stringify(head))
  if (text.length >= HEAD_BYTES) return undefined
  const bytes = Buffer.alloc(HEAD_BYTES, ' ')
  text.copy(bytes)
  bytes[HEAD_BYTES - 1] = 10
  return bytes
}

/** Undefined if the bytes are not a valid head. */
export function readHead(bytes: Buffer): CachedHead | undefined {
  if (bytes.length !== HEAD_BYTES) return undefined
  try {
    const { data } = cachedHead.safeParse(JSON.parse(bytes.toString('utf8')))
    return data?.headers.every(isPlainHeader) ? data : undefined
  } catch {
    return undefined
  }
}
