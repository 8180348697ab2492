/** Opens a file of the user before anything is sent: a later failure would look like one of the server's. */
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { fileError } from '../output/file-error.ts'

export async function openFile(path: string, reason: string): Promise<Readable> {
  try {
    const handle = await open(path)
    if (!(await handle.stat()).isDirectory()) return handle.createReadStream()
    await handle.close()
    throw Object.assign(new Error('a directory'), { code: 'EISDIR' })
  } catch (error) {
    throw fileError(error, { reason, what: 'cannot read', path })
  }
}
