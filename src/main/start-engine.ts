/** Starts the engine with the providers, the bases and the egress process that it uses. */
import { e2bEnvironment } from '../api/e2b/sandbox-environment.ts'
import { BaseRoots } from '../bases/base-roots.ts'
import { readKeptLimit, readRegistries, readUserIsolation } from '../config/config-files.ts'
import { strongestIsolation } from '../core/capability.ts'
import type { Provider } from '../core/provider.ts'
import { DEFAULT_KEPT } from '../core/spec.ts'
import { parseUpstreamProxy } from '../egress/reach/upstream-proxy.ts'
import { Engine } from '../engine/engine.ts'
import { DEFAULT_QUOTA } from '../engine/lifecycle/quota.ts'
import { crun } from '../providers/crun/provider.ts'
import { registryCredential } from '../providers/docker/image/registry-auth.ts'
import { dockerProvider } from '../providers/docker/provider.ts'
import { gvisor } from '../providers/gvisor/provider.ts'
import { runscFile } from '../providers/gvisor/runsc-file.ts'
import { type LocalImages, localImages } from '../providers/local/images/images.ts'
import { podimageProgram } from '../providers/local/images/podimage.ts'
import { Podhost } from '../providers/local/podhost.ts'
import { qemu } from '../providers/qemu/provider.ts'
import { machineFiles } from '../providers/qemu/vm-files.ts'
import { openSealedBox } from '../secrets/sealed-box.ts'
import { eventStore } from '../store/events.ts'
import { groupStore } from '../store/groups.ts'
import { keyStore } from '../store/keys.ts'
import { secretStore } from '../store/secrets.ts'
import { snapshotStore } from '../store/snapshots.ts'
import { volumeStore } from '../store/volumes.ts'
import { ignore } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import { EgressProcess } from './egress-process.ts'
import { hostRoots } from './host-roots.ts'
import { MemberSocket } from './member-socket.ts'
import type { ServerSetup, ServerState } from './server-setup.ts'

const DEFAULT_SHELLS = 4
const CREATE_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export interface StartedEngine {
  readonly engine: Engine
  readonly roots: BaseRoots
  /** Ends podhost and the egress process, if no sandbox needs them. */
  leaveHelpers(): Promise<void>
}

export async function startEngine(setup: ServerSetup, stores: ServerState): Promise<StartedEngine> {
  const { home, log, metrics, scope } = setup
  const podhost = openPodhost(setup)
  const egress = openEgress(setup, () => engine)
  const roots = openBases(setup, stores)
  const keyLevels = keyStore(stores.state)
  const engine = new Engine({
    ...engineStores(stores),
    ...networkParts(setup, stores, egress),
    providers: openProviders(setup, stores, podhost),
    defaultProvider: setup.options.defaultProvider,
    roots,
    owner: stores.owner,
    tmpDir: setup.home.tmp,
    clock: systemClock,
    random: systemRandom,
    log,
    quota: {
      living: setup.options.limits?.living ?? DEFAULT_QUOTA.living,
      kept: () => readKeptLimit(setup.home.root) ?? DEFAULT_KEPT,
    },
    // Read each time: the file may change while the server runs.
    leastIsolation: (owner) =>
      strongestIsolation(readUserIsolation(setup.home.root), keyLevels.isolationOf(owner)),
    addedInside: e2bEnvironment,
    onCreated: createTimes(metrics),
  })
  scope.defer(() => engine.close())
  const members = new MemberSocket({
    path: home.memberSocket,
    dial: (call, signal) => engine.groups.dial(call, signal),
    log,
  })
  scope.defer(() => members.close())
  await engine.open()
  await egress
    .adopt()
    .catch((error) => ignore(log, error, 'the egress process of an earlier server did not answer'))
  describeProcess(metrics, engine)
  const leaveHelpers = async (): Promise<void> => {
    if (engine.usage.busyCount > 0) return
    await Promise.allSettled([podhost.leave({ timeoutMs: 2000 }), egress.leave()])
  }
  return { engine, roots, leaveHelpers }
}

function openPodhost({ options, home, scope }: ServerSetup): Podhost {
  const podhost = new Podhost({
    home: home.root,
    ...options.programs,
    runsc: runscFile(process.env),
    ...machineFiles(process.env),
    shells: options.shells ?? DEFAULT_SHELLS,
  })
  scope.defer(() => podhost.close())
  return podhost
}

function openProviders(
  { options, home, log }: ServerSetup,
  { owner }: ServerState,
  podhost: Podhost,
): Provider[] {
  const { podd } = options.programs
  const images = openImages({ options, home }, podhost)
  return [
    crun(podhost, home.tmp, images),
    gvisor(podhost, home.tmp, images),
    qemu(podhost, home.tmp, images),
    dockerProvider({ env: process.env, poddFile: podd, owner }),
    ...(options.providers ?? []).map((open) => open({ home: home.root, podd, owner, log })),
  ]
}

/** Registries are asked with the settings and credentials of the user who runs the server. */
function openImages(
  { options, home }: Pick<ServerSetup, 'options' | 'home'>,
  podhost: Podhost,
): LocalImages | undefined {
  const { podimage } = options.programs
  if (podimage === undefined) return undefined
  return localImages(podhost, home.tmp, {
    podimage: podimageProgram(podimage, process.env, options.upstreamProxy),
    recordsFile: home.imageRecords,
    arch: process.arch,
    env: process.env,
    registries: {
      settings: () => readRegistries(home.root),
      credential: (host) => registryCredential(process.env, host),
    },
  })
}

/** `engine` is called only once the egress process reports something, which is after the engine was made. */
function openEgress(
  { options, home, log, metrics, scope }: ServerSetup,
  engine: () => Engine,
): EgressProcess {
  // Checked here, so that the error reaches the caller and not only the log of the egress process.
  if (options.upstreamProxy !== undefined) parseUpstreamProxy(options.upstreamProxy)
  const decisions = metrics.counter(
    'agentpod_network_decisions',
    'Decisions of the egress process, by verdict.',
  )
  const egress = new EgressProcess({
    socket: home.egressSocket,
    script: options.programs.egress,
    logFile: home.egressLog,
    relays: home.run,
    memberSocket: home.memberSocket,
    upstreamProxy: options.upstreamProxy,
    cacheDirectory: home.packageCache,
    log,
    clock: systemClock,
    onRecords: (records) => {
      for (const { verdict, count } of records) decisions.add({ verdict }, count)
      engine().networks.recordDecisions(records)
    },
    onUsage: (records) => engine().networks.recordUsage(records),
  })
  scope.defer(() => egress.disconnect())
  return egress
}

function openBases({ home }: ServerSetup, { sandboxes }: ServerState): BaseRoots {
  return new BaseRoots({
    tmpDir: home.tmp,
    logFile: home.debianLog,
    isRoot: process.getuid?.() === 0,
    arch: process.arch,
    env: process.env,
    built: { get: (key) => sandboxes.meta(key), set: (key, digest) => sandboxes.setMeta(key, digest) },
  })
}

function engineStores({
  state,
  events,
  sandboxes,
  audit,
}: ServerState): Pick<
  ConstructorParameters<typeof Engine>[0],
  'sandboxes' | 'snapshots' | 'volumes' | 'groups' | 'events' | 'audit'
> {
  return {
    sandboxes,
    snapshots: snapshotStore(state),
    volumes: volumeStore(state),
    groups: groupStore(state),
    events: eventStore(events),
    audit,
  }
}

function networkParts(
  { options, home }: ServerSetup,
  { state }: ServerState,
  egress: EgressProcess,
): Pick<ConstructorParameters<typeof Engine>[0], 'network'> {
  const secrets = secretStore(state)
  const box = openSealedBox(home.secretsKey, systemRandom, () => secrets.hasAny())
  return { network: { egress, secrets, box, ...hostRoots(options.trustFile) } }
}

function createTimes(metrics: Metrics): (seconds: number, outcome: string) => void {
  const histogram = metrics.histogram(
    'agentpod_create_seconds',
    'Time to create a sandbox, by outcome.',
    CREATE_SECONDS,
  )
  return (seconds, outcome) => histogram.observe({ outcome }, seconds)
}

function describeProcess(metrics: Metrics, engine: Engine): void {
  metrics.gauge('agentpod_sandboxes', 'Existing sandboxes, by state.', () =>
    [...engine.usage.countByState()].map(([state, count]) => [{ state }, count] as const),
  )
  metrics.gauge('agentpod_resident_memory_bytes', 'Memory of the server.', () => [
    [{}, process.memoryUsage.rss()],
  ])
  metrics.gauge('agentpod_uptime_seconds', 'Time since the process began.', () => [[{}, process.uptime()]])
}
