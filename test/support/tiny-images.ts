/** File trees of small images: busybox, and a program alone. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import type { TarEntry } from './tar-bytes.ts'

const BUSYBOX = ['/bin/busybox', '/usr/bin/busybox'].find((file) => existsSync(file))

/** Why there is no busybox that runs in an empty root, or false. */
export const NO_BUSYBOX: string | false =
  BUSYBOX === undefined || readFileSync(BUSYBOX).includes('/ld-linux')
    ? 'needs a static busybox (Debian’s busybox-static; scripts/setup tests installs it)'
    : false

function program(): Buffer {
  return readFileSync(BUSYBOX ?? '/bin/busybox')
}

/** /bin with every command that busybox has: no bash, no git, no /etc/passwd. */
export function busyboxFiles(): TarEntry[] {
  const names = execFileSync(BUSYBOX ?? 'busybox', ['--list'], { encoding: 'utf8' })
    .trim()
    .split('\n')
  return [
    { name: 'bin/', type: 'directory' },
    { name: 'bin/busybox', content: program(), mode: 0o755 },
    ...names
      .filter((name) => name !== 'busybox')
      .map((name): TarEntry => ({ name: `bin/${name}`, type: 'symlink', target: 'busybox' })),
  ]
}

/** One program and nothing else, not even a shell. */
export function scratchFiles(): TarEntry[] {
  return [{ name: 'busybox', content: program(), mode: 0o755 }]
}
