/**
 * A fingerprint that changes if this machine's tools may have changed. It reads only names and times, so it
 * takes microseconds.
 */
import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Directories of version managers that are not on the PATH, below the home directory or the root. */
const MANAGED = [
  '.pyenv/versions',
  '.rbenv/versions',
  '.rustup/toolchains',
  '.nvm/versions/node',
  '.local/share/mise/installs',
]
const SYSTEM = ['/usr/lib/jvm', '/usr/lib/postgresql', '/opt']

export function hostFingerprint(env: Readonly<Record<string, string | undefined>>): string {
  const sum = createHash('sha256')
  const home = env['HOME'] ?? ''
  const places = [
    ...(env['PATH'] ?? '').split(delimiter),
    ...MANAGED.map((directory) => join(home, directory)),
    ...SYSTEM,
  ]
  for (const place of places) sum.update(`${place} ${describeDirectory(place)}\n`)
  return sum.digest('hex')
}

function describeDirectory(place: string): string {
  try {
    const { mtimeMs } = statSync(place)
    return `${mtimeMs} ${MANAGED.some((managed) => place.endsWith(managed)) ? readdirSync(place).join() : ''}`
  } catch {
    return '-'
  }
}
