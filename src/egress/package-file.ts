/**
 * How a kept answer lies on disk: a head of fixed size, which is one line of JSON filled up with spaces, and the body behind it. The hash in the head is
 * known when the body has been written, so the head is written last.
 */
import { z } from 'zod'
import { isPlainHeader } from './http-check.ts'
import type { Header } from './http-head.ts'

export interface KeptHead {
  readonly url: string
  /** What is said again, besides the length. */
  readonly headers: readonly Header[]
  readonly bytes: number
  /** Of the body, in hex. */
  readonly sha256: string
  /** Where it came from; absent behind a proxy, which alone knows it. */
  readonly address?: string | undefined
}

export const HEAD_BYTES = 4096
export const LARGEST_BODY = 1024 * 1024 * 1024

const header = z.tuple([z.string(), z.string()])
const keptHead: z.ZodType<KeptHead> = z.strictObject({
  url: z.string(),
  headers: z.array(header).readonly(),
  bytes: z.int().min(1).max(LARGEST_BODY),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  address: z.string().optional(),
})

/** Undefined where it is longer than a head may be. */
export function writeHead(head: KeptHead): Buffer | undefined {
  const text = Buffer.from(JSON.stringify(head))
  if (text.length >= HEAD_BYTES) return undefined
  const bytes = Buffer.alloc(HEAD_BYTES, ' ')
  text.copy(bytes)
  bytes[HEAD_BYTES - 1] = 10
  return bytes
}

/** Undefined where it is none. */
export function readHead(bytes: Buffer): KeptHead | undefined {
  if (bytes.length !== HEAD_BYTES) return undefined
  try {
    const { data } = keptHead.safeParse(JSON.parse(bytes.toString('utf8')))
    return data?.headers.every(isPlainHeader) ? data : undefined
  } catch {
    return undefined
  }
}
