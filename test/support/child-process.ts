import type { ChildProcess } from 'node:child_process'

const LIMIT_MS = 5000

/** Ends a process that runs as long as its standard input is open, and kills it if it does not end. */
export async function endByInput(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('close', resolve))
  child.stdin?.end()
  const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  await gone
  clearTimeout(timer)
}
