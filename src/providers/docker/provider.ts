/**
 * Sandboxes as containers of a Docker daemon, local or far. The container runs podd and nothing of ours is on the daemon's machine: all that
 * is known of a sandbox is in its labels. The daemon keeps no time: podd's lease ends a sandbox, and the engine's sweep removes it.
 */
import type { CallOptions } from '../../core/call.ts'
import type { Capabilities } from '../../core/capability.ts'
import { AgentPodError } from '../../core/error.ts'
import type { OwnerLabel, SandboxId } from '../../core/id.ts'
import type { Created, CreatePlan, Handle, Listed, Observed, Provider } from '../../core/provider.ts'
import { LIMITED } from '../../core/resources.ts'
import { poddGuest } from '../../guest/podd.ts'
import { multiplexedStreams, type PoddStreams } from '../../guest/streams.ts'
import { type Random, systemRandom } from '../../util/random.ts'
import type { Container, Info } from './answers.ts'
import { callSignal } from './call-signal.ts'
import { Containers } from './containers.ts'
import { Creator } from './create.ts'
import { Daemon } from './daemon.ts'
import { DaemonLimits } from './daemon-limits.ts'
import { diagnose } from './diagnose.ts'
import type { Environment } from './endpoint.ts'
import { dialPodd } from './exec-stream.ts'
import { Exits } from './exits.ts'
import { tokenArchive } from './furnish.ts'
import { ImageStore } from './image-store.ts'
import { images } from './images.ts'
import { layers } from './layers.ts'
import { listContainers } from './listing.ts'
import { containerName, OWNER, SNAPSHOT, stoppedName, TOKEN } from './names.ts'
import { handleOf, observedOf } from './observed.ts'
import { PoddVolume } from './podd-volume.ts'
import { Roots } from './roots.ts'
import { snapshots } from './snapshots.ts'
import { Stats } from './stats.ts'
import { sweepStore } from './sweep-store.ts'

export interface DockerOptions {
  /** Says where the daemon is, as for the docker command, and where the user's settings and programs are. */
  readonly env: Environment
  /** podd for linux, on the daemon's kind of processor. */
  readonly poddFile: string
  /** Whose layers, volumes and composed images these are; one state directory has one. */
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
  readonly #creator: Creator
  readonly #exits: Exits
  readonly #stats: Stats
  /** By container. podd serves one connection, which the guest and the way out share. */
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
    const roots = new Roots({ daemon, images: store, owner })
    this.#daemon = daemon
    this.#containers = containers
    this.#images = store
    this.#limits = new DaemonLimits(daemon)
    this.#volume = new PoddVolume({ daemon, owner, poddFile })
    this.#creator = new Creator({
      ...{ daemon, containers, roots, random },
      ...{ limits: this.#limits, images: store, volume: this.#volume },
    })
    this.#exits = new Exits(daemon, containers)
    this.#stats = new Stats(daemon, containers)
    this.images = images(daemon, store, env)
    this.layers = layers({ daemon, images: store, roots, owner })
    this.snapshots = snapshots({ daemon, containers, images: store, roots })
  }

  async capabilities(o: CallOptions): Promise<Capabilities> {
    return capabilitiesOf(await this.#limits.info(o), this.#limits)
  }

  diagnose(o: CallOptions): ReturnType<Provider['diagnose']> {
    return diagnose(this.#daemon, this.#limits, this.#options.poddFile, o)
  }

  create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    return this.#creator.create(plan, o)
  }

  async inspect(id: SandboxId, o: CallOptions): Promise<Observed> {
    const found = await this.#containers.find(id, o)
    return found ? observedOf(found) : { state: 'absent' }
  }

  async list(owner: OwnerLabel, o: CallOptions): Promise<readonly Listed[]> {
    const listed: Listed[] = []
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
    // Of a snapshot that was removed meanwhile this was the last use.
    if (found && found.Config.Labels[SNAPSHOT] !== '') await this.#images.removeUnused(found.Image, o)
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
      // The name first: a container that ends without it would count as one that ended by itself.
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
      await this.#containers.putArchive(found.Id, tokenArchive(Labels[TOKEN] ?? ''), o)
      this.#containers.begin(found.Id)
      await this.#containers.post(found.Id, 'start', {}, o)
    }
    // The name last: one that did not start is stopped as before.
    await this.#rename(found, containerName, sandboxId, o)
    return this.#creator.created(plan, found.Id, Labels, { env: found.Config.Env }, info)
  }

  #streamsTo({ data: { container, token } }: Handle): PoddStreams {
    if (typeof container !== 'string' || typeof token !== 'string')
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'handle.malformed',
        message: 'a handle without its container',
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
    const wanted = name(found.Config.Labels[OWNER] as OwnerLabel, id)
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
    // A runtime such as runsc may keep sandboxes further apart; the daemon's word for its name proves nothing.
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
    notes: [
      ...weak,
      'network: programs have to use the proxy; what does not is cut off',
      'sudo: programs inside cannot become root; commands can be run as root from outside',
      ...(info.SecurityOptions.some((option) => /userns|rootless/.test(option))
        ? []
        : [
            'root inside is root of the daemon’s machine with few capabilities: no user namespace is in between',
          ]),
    ],
  }
}

function notRunning(id: SandboxId): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'sandbox.ended',
    message: `the sandbox ${id} does not run`,
  })
}

/** SECURITY: containers have no_new_privs, so that no program of an image gains anything by its mode bits; sudo would need that. */
function noSudo(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'sudo.unsupported',
    message: 'programs in a container of the provider docker cannot become root with sudo',
    hint: 'run the command as root (`--user root`), install packages in the environment, or use the provider crun',
  })
}
