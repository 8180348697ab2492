import { statfs } from 'node:fs/promises'

const MIB = 1024 * 1024
const GIB = 1024 * MIB

/**
 * How many bytes may still be written below a directory before only the reserve is left, computed like
 * podhost does.
 */
export async function spareBytes(directory: string): Promise<number> {
  const { bavail, blocks, bsize } = await statfs(directory)
  const size = blocks * bsize
  const reserve = Math.min(size / 10, Math.max(512 * MIB, Math.min(5 * GIB, size / 20)))
  return bavail * bsize - reserve
}
