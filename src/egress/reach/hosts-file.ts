/** Looks up names in the hosts file of this machine. */
import { readFile, stat } from 'node:fs/promises'

const PATH = '/etc/hosts'
const LARGEST_BYTES = 4 * 1024 * 1024

/** The file is read again when it changes. A file that cannot be read has no names. */
export function hostsFile(path = PATH): (name: string) => Promise<readonly string[]> {
  let stamp = ''
  let names = new Map<string, string[]>()
  return async (name) => {
    try {
      const { mtimeMs, size, ino } = await stat(path)
      const now = `${mtimeMs} ${size} ${ino}`
      if (now !== stamp) {
        names = size > LARGEST_BYTES ? new Map() : parseHosts(await readFile(path, 'utf8'))
        stamp = now
      }
    } catch {
      return []
    }
    return names.get(name) ?? []
  }
}

export function parseHosts(text: string): Map<string, string[]> {
  const names = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...aliases] = (line.split('#', 1)[0] ?? '').trim().split(/\s+/)
    for (const alias of aliases) {
      const name = alias.toLowerCase()
      names.set(name, [...(names.get(name) ?? []), address])
    }
  }
  return names
}
