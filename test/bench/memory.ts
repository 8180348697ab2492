/** The memory of processes, each shared page divided among those that share it (PSS). */
import { readdirSync, readFileSync } from 'node:fs'

/** Of all these processes together, in MiB. A process that has ended counts nothing. */
export function pssMib(pids: Iterable<number>): number {
  let kib = 0
  for (const pid of pids) kib += Number(/^Pss:\s+(\d+)/m.exec(read(pid, 'smaps_rollup'))?.[1] ?? 0)
  return kib / 1024
}

/** Processes with one of these words somewhere in their command line. */
export function processesNaming(words: readonly string[]): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const line = read(pid, 'cmdline')
      return words.some((word) => line.includes(word))
    })
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
