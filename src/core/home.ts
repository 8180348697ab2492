/** Where things lie in a state directory. Everything of AgentPod lives under it. */
export interface Home {
  readonly root: string
  readonly run: string
  readonly logs: string
  readonly tmp: string
  readonly patches: string
  readonly socket: string
  readonly serverFile: string
  readonly lockFile: string
  readonly serverLog: string
  readonly stateDb: string
  readonly eventsDb: string
}

export function homeAt(root: string): Home {
  const run = `${root}/run`
  const logs = `${root}/logs`
  return {
    root,
    run,
    logs,
    tmp: `${root}/tmp`,
    patches: `${root}/patches`,
    socket: `${run}/api.sock`,
    serverFile: `${run}/server.json`,
    lockFile: `${run}/server.lock`,
    serverLog: `${logs}/server.log`,
    stateDb: `${root}/state.db`,
    eventsDb: `${root}/events.db`,
  }
}
