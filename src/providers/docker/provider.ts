/**
 * Sandboxes as containers of a local or remote Docker daemon. The container runs podd; nothing else of ours
 * is on the daemon's machine, and the state of a sandbox is in its labels. The daemon enforces no deadlines:
 * podd's lease ends a sandbox, and the engine's sweep removes it.
 */
import type { CallOptions } from '../../core/call.ts'
import type { Capabilities } from '../../core/capability.ts'
import { AgentPodError } from '../../core/error.ts'
import type { OwnerLabel, SandboxId } from '../../core/id.ts'
import type { Created, CreatePlan, Handle, ListedSandbox, Observed, Provider } from '../../core/provider.ts'
import { LIMITED } from '../../core/resources.ts'
import { poddGuest } from '../../guest/podd/client.ts'
import { multiplexedStreams, type PoddStreams } from '../../guest/podd/streams.ts'
import { type Random, systemRandom } from '../../util/random.ts'
import { handleOf, observedOf } from './container/container-state.ts'
import { Containers } from './container/containers.ts'
import { ContainerCreator } from './container/create.ts'
import { dialPodd } from './container/exec-stream.ts'
import { ContainerExits } from './container/exits.ts'
import { tokenArchive } from './container/initial-files.ts'
import { PoddVolume } from './container/podd-volume.ts'
import { ContainerStats } from './container/stats.ts'
import { callSignal } from './daemon/call-signal.ts'
import { Daemon } from './daemon/daemon.ts'
import { DaemonLimits } from './daemon/daemon-limits.ts'
import type { EnvironmentVariables } from './daemon/endpoint.ts'
import type { Container, Info } from './daemon/responses.ts'
import { diagnose } from './diagnose.ts'
import { ImageStore } from './image/image-store.ts'
import { dockerLayers } from './image/layers.ts'
import { dockerImages } from './image/pull.ts'
import { RootImages } from './image/roots.ts'
import { dockerSnapshots } from './image/snapshots.ts'
import { sweepStore } from './image/sweep-store.ts'
import { listContainers } from './listing.ts'
import { containerName, OWNER_LABEL, SNAPSHOT_LABEL, stoppedName, TOKEN_LABEL } from './names.ts'

export interface DockerOptions {
  /**
   * The environment of the docker command: it gives the daemon's address and the user's settings and PATH.
   */
  readonly env: EnvironmentVariables
  /** podd for Linux, built for the daemon's processor. */
  readonly poddFile: string
  /** The owner of the layers, volumes and composed images; each state directory is one owner. */
  readonly owner: OwnerLabel
  readonly random?: Random
}

const DIAL_MS = 20_000

export function dockerProvider(options: DockerOptions): Provider {
  return new DockerProvider(options)
}

class DockerProvider implements Provider {
  readonly name = 'docker'
  readonly #options: DockerOptions
  readonly #daemon: Daemon
  readonly #containers: Containers
  readonly #limits: DaemonLimits
  readonly #images: ImageStore
  readonly #volume: PoddVolume
  readonly #creator: ContainerCreator
  readonly #exits: ContainerExits
  readonly #stats: ContainerStats
  /** By container. podd serves one connection, which the guest and the egress process share. */
  readonly #streams = new Map<string, PoddStreams>()
  readonly images: Provider['images']
  readonly layers: Provider['layers']
  readonly snapshots: Provider['snapshots']

  constructor(options: DockerOptions) {
    this.#options = options
    const { env, owner, poddFile, random = systemRandom } = options
    const daemon = new Daemon(env)
    const containers = new Containers(daemon)
    const store = new ImageStore(daemon)
    const roots = new RootImages({ daemon, images: store, owner })
    this.#daemon = daemon
    this.#containers = containers
    this.#images = store
    this.#limits = new DaemonLimits(daemon)
    this.#volume = new PoddVolume({ daemon, owner, poddFile })
    this.#creator = new ContainerCreator({
      ...{ daemon, containers, roots, random },
      ...{ limits: this.#limits, images: store, volume: this.#volume },
    })
    this.#exits = new ContainerExits(daemon, containers)
    this.#stats = new ContainerStats(daemon, containers)
    this.images = dockerImages(daemon, store, env)
    this.layers = dockerLayers({ daemon, images: store, roots, owner })
    this.snapshots = dockerSnapshots({ daemon, containers, images: store, roots })
  }

  async capabilities(o: CallOptions): Promise<Capabilities> {
    return capabilitiesOf(await this.#limits.info(o), this.#limits)
  }

  diagnose(o: CallOptions): ReturnType<Provider['diagnose']> {
    return diagnose(this.#daemon, this.#limits, this.#options.poddFile, o)
  }

  async create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    if (plan.mounts.length > 0) throw noMounts()
    return this.#creator.create(plan, o)
  }

  async inspect(id: SandboxId, o: CallOptions): Promise<Observed> {
    const found = await this.#containers.find(id, o)
    return found ? observedOf(found) : { state: 'absent' }
  }

  async list(owner: OwnerLabel, o: CallOptions): Promise<readonly ListedSandbox[]> {
    const listed: ListedSandbox[] = []
    for (const row of await listContainers(this.#daemon, owner, o)) {
      const container = await this.#containers.look(row.Id, o)
      if (!container) continue
      listed.push({ handle: handleOf(row.Id, row.Labels), observed: observedOf(container) })
    }
    return listed
  }

  open(handle: Handle): ReturnType<Provider['open']> {
    const guest = poddGuest(this.#streamsTo(handle))
    const configure = guest.configure.bind(guest)
    return Object.assign(guest, {
      configure: async (init: Parameters<typeof configure>[0], o: CallOptions) => {
        if (init.sudo && init.defaultUser !== 'root') throw noSudo()
        await configure(init, o)
      },
    })
  }

  async destroy(id: SandboxId, o: CallOptions): Promise<void> {
    const plain = this.#containers.plain(id)
    const found = plain === undefined ? await this.#containers.find(id, o) : undefined
    const container = plain ?? found?.Id
    if (container !== undefined) {
      this.#cut(container)
      await this.#containers.remove(container, o)
    }
    // This may have been the last use of a snapshot that was removed meanwhile.
    if (found && found.Config.Labels[SNAPSHOT_LABEL] !== '') await this.#images.removeUnused(found.Image, o)
    this.#containers.forget(id)
  }

  async clear(o: CallOptions): Promise<void> {
    await sweepStore(this.#daemon, this.#images, this.#options.owner, o)
    this.#volume.forget()
  }

  onExit(listener: Parameters<Provider['onExit']>[0]): () => void {
    return this.#exits.listen(listener)
  }

  close(): void {
    this.#exits.close()
    for (const container of this.#streams.keys()) this.#cut(container)
    this.#daemon.close()
  }

  readonly pausing = {
    pause: async (id: SandboxId, o: CallOptions): Promise<void> => {
      const found = await this.#containers.need(id, o)
      if (found.State.Paused) return
      if (!found.State.Running) throw notRunning(id)
      await this.#containers.post(found.Id, 'pause', {}, o)
    },
    resume: async (id: SandboxId, _deadlineAt: number, o: CallOptions): Promise<void> => {
      const found = await this.#containers.need(id, o)
      if (!found.State.Running) throw notRunning(id)
      if (found.State.Paused) await this.#containers.post(found.Id, 'unpause', {}, o)
    },
  }

  readonly stopping = {
    stop: async (id: SandboxId, o: CallOptions): Promise<void> => {
      const found = await this.#containers.need(id, o)
      // Rename it first: otherwise it would count as a container that exited on its own.
      await this.#rename(found, stoppedName, id, o)
      await this.#containers.kill(found.Id, o)
      this.#cut(found.Id)
    },
    start: (plan: CreatePlan, o: CallOptions): Promise<Created> => this.#start(plan, o),
  }

  readonly metering = {
    stats: async (id: SandboxId, o: CallOptions) => this.#stats.of(await this.#containers.need(id, o), o),
  }

  readonly egress = {
    door: (handle: Handle) => ({
      kind: 'stream' as const,
      dial: (o: CallOptions) => this.#streamsTo(handle).open('egress', callSignal(o)),
    }),
  }

  async #start(plan: CreatePlan, o: CallOptions): Promise<Created> {
    const { sandboxId } = plan
    const found = await this.#containers.need(sandboxId, o)
    const info = await this.#limits.info(o)
    this.#limits.refuseMissing(plan.required, this.#limits.levels(info, plan.resources.files))
    const { Labels } = found.Config
    if (!found.State.Running) {
      await this.#containers.putArchive(found.Id, tokenArchive(Labels[TOKEN_LABEL] ?? ''), o)
      this.#containers.begin(found.Id)
      await this.#containers.post(found.Id, 'start', {}, o)
    }
    // Rename it last: a container that did not start stays stopped.
    await this.#rename(found, containerName, sandboxId, o)
    return this.#creator.created(plan, { id: found.Id, labels: Labels, env: found.Config.Env }, info)
  }

  #streamsTo({ data: { container, token } }: Handle): PoddStreams {
    if (typeof container !== 'string' || typeof token !== 'string')
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'handle.malformed',
        message: 'the handle of the sandbox has no container',
      })
    const known = this.#streams.get(container)
    if (known) return known
    const streams = multiplexedStreams((signal) =>
      dialPodd(this.#daemon, { container, token }, { timeoutMs: DIAL_MS }, signal),
    )
    this.#streams.set(container, streams)
    return streams
  }

  #cut(container: string): void {
    this.#streams.get(container)?.close()
    this.#streams.delete(container)
  }

  async #rename(found: Container, name: typeof stoppedName, id: SandboxId, o: CallOptions): Promise<void> {
    const wanted = name(found.Config.Labels[OWNER_LABEL] as OwnerLabel, id)
    if (found.Name === `/${wanted}`) return
    await this.#containers.post(found.Id, 'rename', { name: wanted }, o)
  }
}

function capabilitiesOf(info: Info, limits: DaemonLimits): Capabilities {
  const levels = limits.levels(info, 1)
  const held = Object.values(levels).filter(({ level }) => level === 'enforced').length
  const weak = Object.values(levels).flatMap(({ reason }) =>
    reason === undefined ? [] : [`limits: ${reason}`],
  )
  return {
    // A runtime such as runsc may isolate more, but the name that the daemon reports proves nothing.
    isolation: 'container',
    limits: held === LIMITED.length ? 'enforced' : held > 0 ? 'soft' : 'none',
    pause: 'freeze',
    stop: 'files',
    snapshot: 'disk',
    network: 'proxy',
    metering: 'host',
    deadlines: 'guest',
    layers: true,
    images: true,
    host: false,
    volumes: false,
    rootMounts: false,
    docker: false,
    notes: [
      ...weak,
      'network: programs must use the proxy; other connections fail',
      'sudo: programs inside cannot become root; commands can run as root from outside',
      ...(info.SecurityOptions.some((option) => /userns|rootless/.test(option))
        ? []
        : ['root inside is root of the daemon’s machine with few capabilities: there is no user namespace']),
    ],
  }
}

function notRunning(id: SandboxId): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'sandbox.ended',
    message: `the sandbox ${id} is not running`,
  })
}

/**
 * SECURITY: FS-33. Docker follows links of the image to a mount point, so an image would choose what a volume
 * covers.
 */
function noMounts(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'volume.unsupported',
    message: 'the provider docker mounts neither volumes nor other roots',
    hint: 'use the provider crun',
  })
}

/**
 * SECURITY: containers have no_new_privs, so that setuid programs of an image gain nothing; sudo would need
 * that.
 */
function noSudo(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'sudo.unsupported',
    message: 'sudo does not work with the provider docker',
    hint: 'run the command as root (`--user root`), install packages in the environment, or use the provider crun',
  })
}
