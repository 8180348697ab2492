/**
 * Packages that tests downloaded, kept outside the clone between test runs. A server cleans its package
 * directory when it starts, so two servers cannot share one: each state directory gets a copy of all
 * packages, and returns its new ones. Without a place to keep them, tests are only slower.
 */
import { randomUUID } from 'node:crypto'
import { copyFile, link, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { homeAt } from '../../src/core/home.ts'

/** As the package cache names what is whole. */
const NAME = /^[0-9a-f]{64}$/
const MOST_BYTES = 4 * 1024 ** 3

export function sharedPackages(): string {
  const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(cache, 'agentpod-tests', 'packages')
}

/** Before the server of this home starts. */
export async function takePackages(home: string, shared = sharedPackages()): Promise<number> {
  return bring(shared, homeAt(home).packageCache)
}

/** After it has stopped. */
export async function keepPackages(home: string, shared = sharedPackages()): Promise<number> {
  const kept = await bring(homeAt(home).packageCache, shared)
  await makeRoom(shared)
  return kept
}

async function bring(from: string, to: string): Promise<number> {
  const names = (await readdir(from).catch(() => [])).filter((name) => NAME.test(name))
  if (names.length === 0) return 0
  await mkdir(to, { recursive: true, mode: 0o700 })
  let brought = 0
  for (const name of names) if (await bringOne(join(from, name), join(to, name))) brought++
  return brought
}

/** Files are never changed once they have their name, so one may lie in many directories. */
async function bringOne(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Another process added the file, or removed it to free space.
    if (code === 'EEXIST' || code === 'ENOENT') return false
    return copied(from, to)
  }
}

/** On another file system it is copied, and renamed when it is complete. */
async function copied(from: string, to: string): Promise<boolean> {
  const draft = `${to}.${randomUUID()}`
  try {
    await copyFile(from, draft)
    await rename(draft, to)
    return true
  } catch {
    await rm(draft, { force: true })
    return false
  }
}

async function makeRoom(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  const files = await Promise.all(
    names.map(async (name) => {
      const path = join(directory, name)
      const found = await lstat(path).catch(() => undefined)
      return { path, bytes: found?.size ?? 0, usedAt: found?.mtimeMs ?? 0 }
    }),
  )
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  for (const file of files.sort((a, b) => a.usedAt - b.usedAt)) {
    if (bytes <= MOST_BYTES) return
    await rm(file.path, { force: true })
    bytes -= file.bytes
  }
}
