import { createHash } from 'node:crypto'

/** The SHA-256 of data that is in memory, as 64 hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
