/** The composition root of the server: starts its parts in order, and stops them in reverse. */
import { armFailpoint } from '../util/failpoint.ts'
import { IdleExit } from './idle-exit.ts'
import type { TcpAddress } from './listeners.ts'
import { openListeners } from './open-listeners.ts'
import { guardProcess } from './process-guard.ts'
import type { ServerOptions } from './server-options.ts'
import { openServerState, type ServerSetup, setUp } from './server-setup.ts'
import { startEngine } from './start-engine.ts'
import { startTemplates } from './start-templates.ts'
import { startBuilds, startRuns } from './start-work.ts'

export interface RunningServer {
  /** The TCP address, if it listens there besides the unix socket. */
  readonly tcp: TcpAddress | undefined
  /** Resolves when the server has stopped, on request or because it was idle. */
  readonly done: Promise<void>
  stop(): Promise<void>
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  armFailpoint(process.env['AGENTPOD_FAILPOINT'] ?? '')
  const setup = setUp(options)
  try {
    return await start(setup)
  } catch (error) {
    await setup.scope.disposeAsync()
    throw error
  }
}

async function start(setup: ServerSetup): Promise<RunningServer> {
  const { options, log, scope } = setup
  const stores = openServerState(setup)
  const { engine, roots, leaveHelpers } = await startEngine(setup, stores)
  const builds = await startBuilds(setup, stores, engine)
  const templates = startTemplates(setup, stores, { engine, ...builds })
  const runs = startRuns(setup, stores, engine)
  const finished = Promise.withResolvers<void>()
  let stopping: Promise<void> | undefined
  const stop = (): Promise<void> => {
    stopping ??= scope.disposeAsync().then(finished.resolve, finished.reject)
    return stopping
  }
  const leave = async (): Promise<void> => {
    runs.close()
    engine.close()
    await leaveHelpers()
    await stop()
  }
  const idle = new IdleExit(options.idleExitMs, log)
  const tcp = await openListeners(setup, stores, {
    engine,
    runs,
    builds,
    templates,
    suite: roots.suite,
    onActivity: idle.onActivity,
    leave,
  })
  // A TCP client cannot start the server again as the CLI can, so a TCP address in use keeps it running.
  const isBusy = (): boolean =>
    [engine.usage, engine.images, engine.providers, runs].some(({ busyCount }) => busyCount > 0)
  idle.watch({ isBusy: () => isBusy() || tcp.isInUse, leave })
  scope.use(guardProcess({ log, stop }))
  log.info('serving', { pid: process.pid, living: engine.usage.count })
  return { done: finished.promise, stop, tcp: tcp.address }
}
