// Runs one program with a time limit that also ends what the program started.

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export type ChildOptions = {
  readonly cwd: string
  readonly limitMs: number
  readonly env?: Readonly<Record<string, string>>
  /** Takes standard output line by line; without it the output is collected. */
  readonly onLine?: (line: string) => void
}

export type ChildResult = {
  readonly code: number | null
  readonly timedOut: boolean
  readonly durationMs: number
  /** Standard error, and standard output where no `onLine` took it. */
  readonly output: string
}

const TERM_GRACE_MS = 5_000
const DRAIN_MS = 1_000

const groups = new Set<number>()

/** Ends the process groups of all running children, for a run that is interrupted. */
export function killChildren(signal: NodeJS.Signals): void {
  for (const pid of groups) killGroup(pid, signal)
}

export async function runChild(
  command: string,
  args: readonly string[],
  options: ChildOptions,
): Promise<ChildResult> {
  const startedAt = performance.now()
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const { pid } = child
  let output = ''
  const collect = (chunk: string): void => {
    output += chunk
  }
  child.stderr?.setEncoding('utf8').on('data', collect)
  if (options.onLine && child.stdout) createInterface({ input: child.stdout }).on('line', options.onLine)
  else child.stdout?.setEncoding('utf8').on('data', collect)

  let timedOut = false
  const timers = [
    setTimeout(() => {
      timedOut = true
      if (pid) killGroup(pid, 'SIGTERM')
    }, options.limitMs),
    setTimeout(() => {
      if (pid) killGroup(pid, 'SIGKILL')
    }, options.limitMs + TERM_GRACE_MS),
  ]
  if (pid) groups.add(pid)
  try {
    const code = await exitOf(child)
    return { code, timedOut, durationMs: performance.now() - startedAt, output }
  } finally {
    for (const timer of timers) clearTimeout(timer)
    if (pid) groups.delete(pid)
  }
}

// 'close' waits for every process that holds the pipes, and a daemon that a test left behind may hold one
// forever.
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
    child.once('exit', (code) => setTimeout(() => resolve(code), DRAIN_MS).unref())
  })
}

function killGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
