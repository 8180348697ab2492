/** Starts a server in the background when none listens, and waits until it does. */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { AgentPodError } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { systemClock } from '../../util/clock.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { homeUnusable } from '../output/file-error.ts'
import { isListening } from './is-listening.ts'

const READY_WITHIN_MS = 30_000
const ASK_EVERY_MS = 10
/** Why a server ends that finds another one in the state directory. */
const ANOTHER_RUNS = 'server.running'

/**
 * A server that passes gigabytes through makes short-lived buffers by the thousand. A small nursery collects
 * them early, and one arena that gives memory back keeps the process small (attack case RS-10).
 */
const LEAN_FLAGS = ['--max-semi-space-size=1']
/** The room for garbage that `./agentpod` gives to a command, which ends before it has to collect any. */
const COMMAND_FLAG = '--min-semi-space-size='
/** SECURITY: CP-22. SIGUSR1 would open Node's inspector to everybody on this machine. */
const CLOSED_FLAGS = ['--disable-sigusr1']
const LEAN_ENV = { MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '65536' }

function serverFlags(own: readonly string[]): string[] {
  return [...own.filter((flag) => !flag.startsWith(COMMAND_FLAG)), ...CLOSED_FLAGS, ...LEAN_FLAGS]
}

export async function startServerInBackground(home: Home, script: string): Promise<void> {
  let log: number
  try {
    for (const directory of [home.root, home.run, home.logs]) makeDirectory(directory, 0o700)
    log = openSync(home.serverLog, 'a', 0o600)
  } catch (error) {
    throw homeUnusable(home.root, error)
  }
  const logStart = statSync(home.serverLog).size
  let exited: number | undefined
  const child = spawn(process.execPath, [...serverFlags(process.execArgv), script, 'serve', '--background'], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env: { ...process.env, ...LEAN_ENV, AGENTPOD_HOME: home.root },
  })
  closeSync(log)
  child.once('exit', (code) => {
    exited = code ?? 1
  })
  const deadline = systemClock.now() + READY_WITHIN_MS
  while (systemClock.now() < deadline) {
    if (await isListening(home.socket)) {
      child.unref()
      return
    }
    // Another client may have started one at the same moment; then ours leaves and theirs answers, on a busy
    // machine a while later.
    if (exited !== undefined && !(await isListeningSoon(home))) {
      const failure = startFailed(home, logStart)
      if (failure.reason !== ANOTHER_RUNS) throw failure
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  }
  throw startFailed(home, logStart)
}

async function isListeningSoon(home: Home): Promise<boolean> {
  for (let i = 0; i < 50; i++) {
    if (await isListening(home.socket)) return true
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS * 2))
  }
  return false
}

/** The server's last words are the reason. */
function startFailed(home: Home, logStart: number): AgentPodError {
  const words = readFileSync(home.serverLog).subarray(logStart).toString('utf8').trim().split('\n')
  for (const line of words.reverse()) {
    try {
      const { error } = JSON.parse(line) as {
        error?: { code: never; reason: string; message: string; hint?: string }
      }
      if (error?.message)
        return new AgentPodError({
          ...error,
          code: error.code ?? 'unavailable',
          reason: error.reason ?? 'server.start',
        })
    } catch {
      // Not one of our lines.
    }
  }
  return new AgentPodError({
    code: 'unavailable',
    reason: 'server.start',
    message: `the server did not start: ${words[0] || 'it said nothing'}`,
    hint: `its log is ${home.serverLog}`,
  })
}
