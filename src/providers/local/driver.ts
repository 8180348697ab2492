/** The part that all local providers share: podhost does the work, podd is the guest. */

import type { CallOptions } from '../../core/call.ts'
import type { Capabilities, Check } from '../../core/capability.ts'
import { AgentPodError } from '../../core/error.ts'
import { parseOwner, parseSandboxId, type SandboxId } from '../../core/id.ts'
import type {
  Created,
  CreatePlan,
  EgressDoor,
  Handle,
  HostStats,
  ListedSandbox,
  Mount,
  Observed,
  PausingToDisk,
  Provider,
  SandboxExit,
} from '../../core/provider.ts'
import type { Limited } from '../../core/resources.ts'
import { poddGuest } from '../../guest/podd/client.ts'
import { socketStreams } from '../../guest/podd/streams.ts'
import type { LocalImages } from './images/images.ts'
import type { Podhost } from './podhost.ts'
import {
  type HostInfo,
  parseCreated,
  parseHello,
  parsePage,
  parseProbe,
  parseSandboxEntry,
  parseSandboxStats,
  parseSaved,
} from './protocol.ts'
import { HOST_ROOT, rootArgs, runtimeArgs } from './root.ts'
import { eachPage, localLayers, localSnapshots, localVolumes } from './stores.ts'

const MIB = 1024 * 1024

export interface LocalOptions {
  readonly name: string
  readonly isolation: Capabilities['isolation']
  /** What its sandboxes run on. Providers of different runtimes share podhost, and its layers and images. */
  readonly runtime?: Runtime | undefined
  readonly podhost: Podhost
  /** The directory for files that are exchanged with podhost. */
  readonly exchange: string
  /** Container images; left out if podimage is not built. */
  readonly images?: LocalImages | undefined
}

/** How sandboxes on another kernel than that of this machine differ. */
export interface Runtime {
  /** The name in podhost's protocol. */
  readonly name: string
  /** Limits that the host enforces for it, or that podd sets inside, whatever the host has. */
  readonly alwaysEnforced: readonly Limited[]
  /** Limits that it does not enforce exactly. */
  readonly neverEnforced: readonly Limited[]
  /** Whether sandboxes can share volumes. */
  readonly volumes: boolean
  /** Whether the tools of this machine can be the base; true by default. */
  readonly host?: boolean | undefined
  /** Whether sandboxes can mount other roots; true by default. */
  readonly rootMounts?: boolean | undefined
  /** Whether a snapshot can have the memory of processes. */
  readonly savesMemory: boolean
  /** Whether a pause can write the memory of processes to disk. */
  readonly pausesToDisk: boolean
  /** Whether root inside can have what a Docker engine needs. */
  readonly runsDocker: boolean
  readonly notes: readonly string[]
  /** Throws if this machine lacks something that it needs. */
  check(host: HostInfo): void
}

export function localProvider(options: LocalOptions): Provider {
  const { podhost, runtime, images } = options
  const runtimeName = runtime?.name ?? ''
  let hello: Promise<HostInfo> | undefined
  let heardFrom = 0
  const info = (o: CallOptions): Promise<HostInfo> => {
    if (podhost.generation !== heardFrom) hello = undefined
    heardFrom = podhost.generation
    const asked = hello ?? podhost.call('hello', {}, o).then(parseHello)
    hello = asked
    const forget = (): void => {
      if (hello === asked) hello = undefined
    }
    // A pool that is unavailable now, or a runtime that is missing, may be there the next time.
    const check = (host: HostInfo): void => {
      if (!host.pool.available) forget()
      runtime?.check(host)
    }
    asked.then(check).catch(forget)
    return asked
  }

  return {
    name: options.name,

    async capabilities(o) {
      const host = await info(o)
      runtime?.check(host)
      return capabilities(options, host)
    },

    async diagnose(o): Promise<readonly Check[]> {
      return parseProbe(await podhost.call('probe', runtimeArgs(runtimeName), o))
    },

    async create(plan: CreatePlan, o): Promise<Created> {
      const host = await info(o)
      runtime?.check(host)
      refuseUnenforced(plan.required, host, options)
      refuseVolumes(plan, options)
      const from =
        plan.snapshot === undefined
          ? {}
          : { snapshot: plan.snapshot, ...(plan.hasMemory && { memory: true }) }
      return created(
        plan,
        await podhost.call('sandbox.create', { ...createArgs(plan, runtimeName), ...from }, o),
      )
    },

    async inspect(id: SandboxId, o): Promise<Observed> {
      return parseSandboxEntry(await podhost.call('sandbox.inspect', { id }, o)).observed
    },

    async list(owner, o): Promise<readonly ListedSandbox[]> {
      const listed: ListedSandbox[] = []
      await eachPage(async (after) => {
        const page = parsePage(await podhost.call('sandbox.list', after, o))
        for (const { id, owner: found, socket, out, runtime: foundOn, observed } of page.sandboxes) {
          if (found === owner && foundOn === runtimeName)
            listed.push({ handle: { sandboxId: parseSandboxId(id), data: { socket, out } }, observed })
        }
        return page.next
      })
      return listed
    },

    open(handle: Handle) {
      const socket = handle.data['socket']
      if (typeof socket !== 'string') {
        throw new AgentPodError({
          code: 'data_loss',
          reason: 'handle.malformed',
          message: 'the handle of the sandbox has no socket',
        })
      }
      return poddGuest(socketStreams({ api: socket }))
    },

    async destroy(id, o) {
      await podhost.call('sandbox.destroy', { id }, o)
    },

    async clear(o) {
      // Another provider of the same podhost has cleared everything.
      if (podhost.hasLeft) return
      await podhost.call('clear', {}, o)
      images?.forget()
      await podhost.leave(o)
    },

    onExit(listener: (exit: SandboxExit) => void) {
      return podhost.onEvent((event) => {
        if (event['event'] !== 'sandbox.exited' && event['event'] !== 'sandbox.paused') return
        listener({
          sandboxId: parseSandboxId(String(event['id'])),
          oomKilled: event['oomKilled'] === true,
          expired: event['expired'] === true,
        })
      })
    },

    // The server owns podhost: it stops with the server, or keeps running for sandboxes.
    close: () => undefined,

    deadlines: {
      async extend(id, deadlineAt, o) {
        await podhost.call('sandbox.deadline', { id, deadlineMs: deadlineAt }, o)
      },
    },

    pausing: {
      async pause(id, o) {
        await podhost.call('sandbox.pause', { id }, o)
      },
      async resume(id, deadlineAt, o) {
        await podhost.call('sandbox.resume', { id, deadlineMs: deadlineAt }, o)
      },
      toDisk: runtime?.pausesToDisk ? toDisk(podhost, runtimeName) : undefined,
    },

    stopping: {
      async stop(id, o) {
        await podhost.call('sandbox.stop', { id }, o)
      },
      async start(plan: CreatePlan, o): Promise<Created> {
        refuseUnenforced(plan.required, await info(o), options)
        return created(plan, await podhost.call('sandbox.start', createArgs(plan, runtimeName), o))
      },
    },

    metering: {
      async stats(id, o): Promise<HostStats> {
        return parseSandboxStats(await podhost.call('sandbox.stats', { id }, o))
      },
    },

    egress: { door },
    host: runtime?.host === false ? undefined : { root: () => HOST_ROOT },
    images,
    layers: localLayers(podhost, options.exchange),
    snapshots: localSnapshots(podhost, options.exchange, runtimeName),
    volumes: runtime?.volumes === false ? undefined : localVolumes(podhost),
  }
}

function toDisk(podhost: Podhost, runtime: string): PausingToDisk {
  return {
    async save(id, o) {
      return parseSaved(await podhost.call('sandbox.save', { id }, o))
    },
    async restore(plan, o) {
      return created(plan, await podhost.call('sandbox.restore', createArgs(plan, runtime), o))
    },
  }
}

function door({ data }: Handle): EgressDoor | undefined {
  const path = data['out']
  return typeof path === 'string' && path !== '' ? { kind: 'socket', path } : undefined
}

function created(plan: CreatePlan, answer: unknown): Created {
  const { socket, out, limits, env, network } = parseCreated(answer)
  return { handle: { sandboxId: plan.sandboxId, data: { socket, out } }, limits, env, network }
}

function refuseVolumes({ mounts }: CreatePlan, { name, runtime }: LocalOptions): void {
  if (runtime?.volumes !== false || !mounts.some(({ kind }) => kind === 'volume')) return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'volumes.unsupported',
    message: `the provider ${name} mounts no volumes`,
    hint: 'leave the volume out, or use `--isolation container`',
  })
}

function createArgs(plan: CreatePlan, runtime: string): Record<string, unknown> {
  const r = plan.resources
  return {
    id: plan.sandboxId,
    owner: parseOwner(plan.owner),
    hostname: plan.hostname,
    root: rootArgs(plan.root),
    deadlineMs: plan.deadlineAt,
    whenOver: plan.whenOver,
    ...runtimeArgs(runtime),
    ...(plan.mounts.length > 0 && { mounts: plan.mounts.map(mountArgs) }),
    ...(plan.rootDirs && plan.rootDirs.length > 0 && { rootDirs: plan.rootDirs }),
    ...(plan.docker && { docker: true }),
    resources: {
      memoryBytes: r.memoryMib * MIB,
      swapBytes: r.swapMib * MIB,
      cpus: r.cpus,
      pids: r.pids,
      files: r.files,
      tmpBytes: r.tmpMib * MIB,
      shmBytes: r.shmMib * MIB,
      diskBytes: r.diskMib * MIB,
    },
  }
}

function mountArgs(mount: Mount): Record<string, unknown> {
  const { kind, path } = mount
  if (kind === 'tmpfs')
    return {
      kind,
      path,
      ...(mount.sizeBytes !== undefined && { sizeBytes: mount.sizeBytes }),
      ...(mount.takesOwner && { takesOwner: true }),
    }
  return kind === 'root'
    ? { kind, path, root: rootArgs(mount.root), ...(mount.from !== undefined && { from: mount.from }) }
    : { kind, path, volume: mount.id, readOnly: mount.isReadOnly }
}

/** A requested limit is enforced or refused, before anything is created. */
function refuseUnenforced(required: readonly Limited[], host: HostInfo, { runtime }: LocalOptions): void {
  const missing = required.filter((limit) => !isEnforceable(limit, host, runtime))
  if (missing.length === 0) return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'limits.unenforced',
    message: `this machine cannot enforce a limit on ${missing.join(', ')} for ${host.rootless ? 'an ordinary user' : 'sandboxes'}`,
    hint: runtime
      ? 'leave the option out, or use `--isolation container`'
      : host.rootless
        ? 'leave the option out, or see `agentpod doctor`, which names what mends it'
        : 'leave the option out, or see `agentpod doctor`: cgroup controllers limit memory, cpus and pids, and a btrfs pool limits disk',
    details: { missing },
  })
}

const CONTROLLERS: Partial<Record<Limited, string>> = {
  memory: 'memory',
  swap: 'memory',
  cpus: 'cpu',
  pids: 'pids',
}

function isEnforceable(limit: Limited, host: HostInfo, runtime: Runtime | undefined): boolean {
  if (runtime?.alwaysEnforced.includes(limit)) return true
  if (runtime?.neverEnforced.includes(limit)) return false
  if (limit === 'disk') return host.pool.quotas
  const controller = CONTROLLERS[limit]
  return controller === undefined || host.controllers.includes(controller)
}

function capabilities({ isolation, images, runtime }: LocalOptions, host: HostInfo): Capabilities {
  const all = ['memory', 'cpu', 'pids'].every((controller) => host.controllers.includes(controller))
  const notes: string[] = []
  if (!all) notes.push(`limits: cgroup controllers at hand are ${host.controllers.join(', ') || 'none'}`)
  if (!host.idmap) notes.push('the host base is read-only: idmapped mounts are not available')
  if (!host.ids.own)
    notes.push(`sandboxes share their user ids, and kernel limits counted by user: ${host.ids.reason ?? ''}`)
  if (host.freezer === 'signals') notes.push('pause, snapshot, fork: processes are stopped by signals')
  if (host.pool.kind === 'copy') notes.push(`snapshots are copies: ${host.pool.reason ?? 'no pool'}`)
  if (runtime) notes.push(...runtime.notes)
  else if (host.network.level !== 'transparent')
    notes.push(`network: ${host.network.reason ?? 'connections are not redirected'}`)
  if (!host.pool.quotas)
    notes.push(`limits on disks and volumes do not hold: ${host.pool.reason ?? 'no quotas'}`)
  return {
    isolation,
    limits:
      all && !runtime?.neverEnforced.length ? 'enforced' : host.controllers.length > 0 ? 'soft' : 'none',
    pause: runtime?.pausesToDisk ? 'memory' : host.freezer === 'cgroup' ? 'freeze' : 'signals',
    snapshot: runtime?.savesMemory ? 'memory' : 'disk',
    stop: 'files',
    network: runtime ? 'transparent' : host.network.level,
    metering: 'host',
    deadlines: 'provider',
    layers: true,
    images: images !== undefined,
    host: runtime?.host !== false,
    volumes: host.volumes && runtime?.volumes !== false,
    rootMounts: host.rootMounts && runtime?.rootMounts !== false,
    docker: (runtime?.runsDocker ?? false) && !host.rootless,
    notes,
  }
}
