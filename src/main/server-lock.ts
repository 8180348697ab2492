/** One server per state directory. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { AgentPodError } from '../core/error.ts'
import type { Home } from '../core/home.ts'
import { type ExclusiveLock, lockExclusively } from '../util/file/exclusive-lock.ts'

export interface ServerName {
  readonly pid: number
  readonly version: string
  readonly build: string | undefined
}

/** Clients read version and build from this file, which is cheaper than a request per command. */
export function lockServer(home: Home, { pid, version, build }: ServerName): ExclusiveLock {
  let lock: ExclusiveLock
  try {
    lock = lockExclusively(home.lockFile)
  } catch (error) {
    throw heldBy(home, error)
  }
  // Renamed into place: a client that reads it meanwhile finds the former server's file or this one, whole.
  const draft = `${home.serverFile}.draft`
  writeFileSync(draft, JSON.stringify({ pid, version, build }), { mode: 0o600 })
  renameSync(draft, home.serverFile)
  return lock
}

function heldBy(home: Home, cause: unknown): AgentPodError {
  let pid = 'unknown'
  try {
    pid = String((JSON.parse(readFileSync(home.serverFile, 'utf8')) as { pid: unknown }).pid)
  } catch {
    // The other server has the lock but has not written its name yet.
  }
  return new AgentPodError({
    code: 'already_exists',
    reason: 'server.running',
    message: `a server (pid ${pid}) already uses ${home.root}`,
    hint: '`agentpod server stop` stops it; use another AGENTPOD_HOME for a second server',
    cause,
  })
}
