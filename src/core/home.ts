/** The paths of a state directory. It holds all files of AgentPod. */
export interface Home {
  readonly root: string
  readonly run: string
  readonly logs: string
  readonly tmp: string
  readonly patches: string
  /** Packages that builds downloaded, for later builds. */
  readonly packageCache: string
  /** The list of container images that are stored as layers. */
  readonly imageRecords: string
  /** Results of runs, one directory each. */
  readonly runs: string
  /** Uploaded files for build steps. */
  readonly buildFiles: string
  /** Uploaded files for steps of templates. */
  readonly templateFiles: string
  readonly socket: string
  readonly serverFile: string
  /** Records for which server and command a restart was declined. */
  readonly restartDeclined: string
  readonly lockFile: string
  readonly serverLog: string
  /** The output of the last bootstrap of the `debian` base. */
  readonly debianLog: string
  readonly stateDb: string
  /** The label of this directory's sandboxes. It must outlive the database. */
  readonly owner: string
  /** The key that `agentpod e2b env` gives to shells. */
  readonly e2bKey: string
  /** Certificates that the server made for itself. */
  readonly tls: string
  /** The authority that a client must trust for them. */
  readonly tlsCa: string
  readonly eventsDb: string
  /** The key that secrets are sealed with. */
  readonly secretsKey: string
  /** The socket on which the egress process listens to the server. */
  readonly egressSocket: string
  readonly egressLog: string
  /** The socket on which the server passes connections between members of groups on. */
  readonly memberSocket: string
  /** The servers that the user has named, with their keys. */
  readonly contexts: string
  /** Exists if an ordinary user was told which limits are not enforced. */
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
    imageRecords: `${root}/images.json`,
    runs: `${root}/runs`,
    buildFiles: `${root}/build-files`,
    templateFiles: `${root}/template-files`,
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
    memberSocket: `${run}/members.sock`,
    contexts: `${root}/contexts.json`,
    limitsNoted: `${root}/limits-noted`,
  }
}
