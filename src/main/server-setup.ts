/**
 * What the steps of a server's start share, and the first step: the state directory, its lock and its
 * databases.
 */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { type Home, homeAt } from '../core/home.ts'
import type { OwnerLabel } from '../core/id.ts'
import { type AuditStore, auditStore } from '../store/audit.ts'
import { type SandboxStore, sandboxStore } from '../store/sandboxes.ts'
import { jsonLog, type Log } from '../telemetry/log.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { systemClock } from '../util/clock.ts'
import { makeDirectory } from '../util/file/make-directory.ts'
import { openEventDatabase, openStateDatabase, ownerOf } from './open-state.ts'
import { lockServer } from './server-lock.ts'
import type { ServerOptions } from './server-options.ts'

export interface ServerSetup {
  readonly options: ServerOptions
  readonly home: Home
  readonly log: Log
  readonly metrics: Metrics
  /** Releases everything that the steps acquired, last first. */
  readonly scope: AsyncDisposableStack
}

export interface ServerState {
  readonly state: DatabaseSync
  readonly events: DatabaseSync
  readonly sandboxes: SandboxStore
  readonly audit: AuditStore
  /** The label of everything that providers make for this server. */
  readonly owner: OwnerLabel
}

export function setUp(options: ServerOptions): ServerSetup {
  const home = homeAt(options.home)
  for (const directory of [home.root, home.run, home.logs, home.tmp]) makeDirectory(directory, 0o700)
  const log = jsonLog(systemClock, options.writeLog)
  return { options, home, log, metrics: new Metrics(), scope: new AsyncDisposableStack() }
}

/** Takes the lock of the state directory and opens its databases. */
export function openServerState({ options, home, scope }: ServerSetup): ServerState {
  const lock = lockServer(home, { pid: process.pid, version: options.version, build: options.build })
  scope.defer(() => lock.release())
  removeArchives(home.tmp)
  const state = openStateDatabase(home)
  scope.defer(() => state.close())
  const events = openEventDatabase(home)
  scope.defer(() => events.close())
  const sandboxes = sandboxStore(state)
  return { state, events, sandboxes, audit: auditStore(events), owner: ownerOf(home, sandboxes) }
}

/** Removes the parts of snapshot archives that a killed server left behind. */
function removeArchives(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (name.startsWith('snapshot-')) rmSync(join(directory, name), { force: true })
  }
}
