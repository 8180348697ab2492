/**
 * One server to a state directory. The lock is SQLite's own on an empty file: the kernel drops it when the process dies,
 * however it dies, and Node has no flock.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { AgentPodError } from '../core/error.ts'
import type { Home } from '../core/home.ts'

export interface ServerLock {
  release(): void
}

export function lockServer(home: Home, pid: number): ServerLock {
  const db = new DatabaseSync(home.lockFile, { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    throw heldBy(home, error)
  }
  writeFileSync(home.serverFile, JSON.stringify({ pid }), { mode: 0o600 })
  return { release: () => db.close() }
}

function heldBy(home: Home, cause: unknown): AgentPodError {
  let pid = 'unknown'
  try {
    pid = String((JSON.parse(readFileSync(home.serverFile, 'utf8')) as { pid: unknown }).pid)
  } catch {
    // The other one has the lock and has not written its name yet.
  }
  return new AgentPodError({
    code: 'already_exists',
    reason: 'server.running',
    message: `a server (pid ${pid}) already owns ${home.root}`,
    hint: '`agentpod server stop` ends it; another AGENTPOD_HOME has a server of its own',
    cause,
  })
}
