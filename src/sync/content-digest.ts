/** Identifies the content of files: their paths, bytes, links and whether they are executable. */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { unreadable } from './project-files.ts'

/** Times do not count: a checkout changes them. Files that are gone are left out. */
export async function contentDigest(directory: string, paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const path of paths) {
    const full = join(directory, path)
    const info = await lstat(full).catch(() => undefined)
    if (!info) continue
    const isExecutable = (info.mode & 0o111) !== 0
    const kind = info.isSymbolicLink() ? 'link' : info.isFile() ? 'file' : 'other'
    hash.update(JSON.stringify([path, kind, kind === 'file' && isExecutable]))
    if (kind === 'link') hash.update(JSON.stringify(await readlink(full)))
    if (kind === 'file') hash.update(await digestOfFile(full))
  }
  return hash.digest('hex')
}

async function digestOfFile(full: string): Promise<Buffer> {
  // No link is followed, even if one replaces the file after it was checked.
  const handle = await open(full, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error) => {
      throw unreadable(full, error)
    },
  )
  const hash = createHash('sha256')
  try {
    for await (const chunk of handle.createReadStream({ autoClose: false })) hash.update(chunk as Buffer)
  } finally {
    await handle.close()
  }
  return hash.digest()
}
