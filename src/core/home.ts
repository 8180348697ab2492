/** Where things lie in a state directory. Everything of AgentPod lives under it. */
export interface Home {
  readonly root: string
  readonly run: string
  readonly logs: string
  readonly tmp: string
  readonly patches: string
  /** Packages that builds downloaded, for the next one. */
  readonly packageCache: string
  /** What runs brought back, a directory each. */
  readonly runs: string
  /** Files on their way into steps of builds. */
  readonly buildFiles: string
  readonly socket: string
  readonly serverFile: string
  /** Says for which server and command somebody did not want a restart. */
  readonly restartDeclined: string
  readonly lockFile: string
  readonly serverLog: string
  /** What the last bootstrap of the `debian` base said. */
  readonly debianLog: string
  readonly stateDb: string
  /** The label of this state directory's sandboxes, which has to outlive the database. */
  readonly owner: string
  /** The key that `agentpod e2b env` hands to shells. */
  readonly e2bKey: string
  /** Certificates the server made for itself. */
  readonly tls: string
  /** What a client has to trust to trust them. */
  readonly tlsCa: string
  readonly eventsDb: string
  /** What secrets are sealed with. */
  readonly secretsKey: string
  /** Where the egress process listens to the server. */
  readonly egressSocket: string
  readonly egressLog: string
  /** The servers a person has named, with their keys. */
  readonly contexts: string
  /** Exists when an ordinary user was told which limits do not hold. */
  readonly limitsNoted: string
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
    packageCache: `${root}/cache/packages`,
    runs: `${root}/runs`,
    buildFiles: `${root}/build-files`,
    socket: `${run}/api.sock`,
    serverFile: `${run}/server.json`,
    restartDeclined: `${run}/restart-declined`,
    lockFile: `${run}/server.lock`,
    serverLog: `${logs}/server.log`,
    debianLog: `${logs}/debian-base.log`,
    e2bKey: `${root}/e2b-key.json`,
    tls: `${root}/tls`,
    tlsCa: `${root}/tls/ca.pem`,
    stateDb: `${root}/state.db`,
    owner: `${root}/owner`,
    eventsDb: `${root}/events.db`,
    secretsKey: `${root}/secrets.key`,
    egressSocket: `${run}/egress.sock`,
    egressLog: `${logs}/egress.log`,
    contexts: `${root}/contexts.json`,
    limitsNoted: `${root}/limits-noted`,
  }
}
