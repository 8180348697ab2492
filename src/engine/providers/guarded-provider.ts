/**
 * What every provider needs and none should repeat: a deadline on each call, one kind of error, undoing a
 * create that succeeds after its caller gave up, and a log line for slow calls.
 */

import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import type {
  Created,
  CreatePlan,
  Layers,
  PausingToDisk,
  Provider,
  Snapshots,
  StoredImages,
  Volumes,
} from '../../core/provider.ts'
import { ignore, type Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { withTimeout } from '../../util/deadline.ts'

const SLOW_MS = 5000
const UNDO_TIMEOUT_MS = 10_000

export function guardedProvider(
  inner: Provider,
  parts: {
    readonly log: Log
    readonly clock: Clock
    /** Called if an abandoned create may have left a sandbox. */
    onLeftover?(): void
  },
): Provider {
  const { log, clock } = parts

  const guard = async <T>(call: string, o: CallOptions, work: (o: CallOptions) => Promise<T>): Promise<T> => {
    const started = clock.now()
    try {
      return await withTimeout(
        o.timeoutMs,
        o.signal,
        (signal) => work({ signal, timeoutMs: o.timeoutMs }),
        () => tooSlow(inner.name, call, o.timeoutMs),
      )
    } catch (error) {
      throw o.signal?.aborted && error === o.signal.reason ? canceled(call) : asAgentPodError(error)
    } finally {
      const tookMs = clock.now() - started
      if (tookMs > SLOW_MS) log.warn('slow provider call', { provider: inner.name, call, tookMs })
    }
  }

  const create = (plan: CreatePlan, o: CallOptions): Promise<Created> => {
    let abandoned = false
    const pending = guard('create', o, (inside) => {
      const made = inner.create(plan, inside)
      made.then(
        async () => {
          if (!abandoned && !inside.signal?.aborted) return
          await inner.destroy(plan.sandboxId, { timeoutMs: UNDO_TIMEOUT_MS }).catch((error) => {
            ignore(log, error, `the sweep will remove ${plan.sandboxId}, which was created too late`)
            parts.onLeftover?.()
          })
        },
        () => undefined,
      )
      return made
    })
    pending.catch(() => {
      abandoned = true
    })
    return pending
  }

  const { deadlines, pausing, stopping, metering, egress, host, images, layers, snapshots, volumes } = inner
  return {
    name: inner.name,
    capabilities: (o) => guard('capabilities', o, (p) => inner.capabilities(p)),
    diagnose: (o) => guard('diagnose', o, (p) => inner.diagnose(p)),
    create,
    inspect: (id, o) => guard('inspect', o, (p) => inner.inspect(id, p)),
    list: (owner, o) => guard('list', o, (p) => inner.list(owner, p)),
    open: (handle) => inner.open(handle),
    destroy: (id, o) => guard('destroy', o, (p) => inner.destroy(id, p)),
    clear: (o) => guard('clear', o, (p) => inner.clear(p)),
    onExit: (listener) => inner.onExit(listener),
    close: () => inner.close(),
    deadlines: deadlines && {
      extend: (id, at, o) => guard('extend', o, (p) => deadlines.extend(id, at, p)),
    },
    pausing: pausing && {
      pause: (id, o) => guard('pause', o, (p) => pausing.pause(id, p)),
      resume: (id, at, o) => guard('resume', o, (p) => pausing.resume(id, at, p)),
      toDisk: pausing.toDisk && guardedDisk(pausing.toDisk, guard),
    },
    stopping: stopping && {
      stop: (id, o) => guard('stop', o, (p) => stopping.stop(id, p)),
      start: (plan, o) => guard('start', o, (p) => stopping.start(plan, p)),
    },
    metering: metering && { stats: (id, o) => guard('stats', o, (p) => metering.stats(id, p)) },
    egress,
    host,
    images: images && {
      ensure: (ref, onProgress, o) =>
        guard('images.ensure', o, (p) =>
          images.ensure(ref, onProgress, { ...p, isAnonymous: o.isAnonymous }),
        ),
      store: images.store && guardedImages(images.store, guard),
    },
    layers: layers && guardedLayers(layers, guard),
    snapshots: snapshots && guardedSnapshots(snapshots, guard),
    volumes: volumes && guardedVolumes(volumes, guard),
  }
}

type Guard = <T>(call: string, o: CallOptions, work: (o: CallOptions) => Promise<T>) => Promise<T>

function guardedDisk(inner: PausingToDisk, guard: Guard): PausingToDisk {
  return {
    save: (id, o) => guard('save', o, (p) => inner.save(id, p)),
    restore: (plan, o) => guard('restore', o, (p) => inner.restore(plan, p)),
  }
}

function guardedLayers(inner: Layers, guard: Guard): Layers {
  return {
    has: (digest, o) => guard('layers.has', o, (p) => inner.has(digest, p)),
    import: (digest, content, o) => guard('layers.import', o, (p) => inner.import(digest, content, p)),
    remove: (digest, o) => guard('layers.remove', o, (p) => inner.remove(digest, p)),
    export: (digest, o) => guard('layers.export', o, (p) => inner.export(digest, p)),
    root: (digests) => inner.root(digests),
    of: (root) => inner.of(root),
  }
}

function guardedImages(inner: StoredImages, guard: Guard): StoredImages {
  const feature = inner.feature?.bind(inner)
  return {
    pull: (ref, onProgress, o) =>
      guard('images.pull', o, (p) => inner.pull(ref, onProgress, { ...p, isAnonymous: o.isAnonymous })),
    list: (o) => guard('images.list', o, (p) => inner.list(p)),
    remove: (ref, o) => guard('images.remove', o, (p) => inner.remove(ref, p)),
    push: (source, ref, onProgress, o) =>
      guard('images.push', o, (p) => inner.push(source, ref, onProgress, p)),
    save: (source, ref, onProgress, o) =>
      guard('images.save', o, (p) => inner.save(source, ref, onProgress, p)),
    layout: (source, o) => guard('images.layout', o, (p) => inner.layout(source, p)),
    ...(feature && {
      feature: (ref, o) =>
        guard('images.feature', o, (p) => feature(ref, { ...p, isAnonymous: o.isAnonymous })),
    }),
  }
}

function guardedSnapshots(inner: Snapshots, guard: Guard): Snapshots {
  const changes = inner.changes?.bind(inner)
  return {
    ...(changes && {
      changes: (id, directory, o) => guard('snapshots.changes', o, (p) => changes(id, directory, p)),
    }),
    create: (id, from, owner, o) =>
      guard('snapshots.create', o, (p) => inner.create(id, from, owner, { ...o, ...p })),
    list: (owner, o) => guard('snapshots.list', o, (p) => inner.list(owner, p)),
    remove: (id, o) => guard('snapshots.remove', o, (p) => inner.remove(id, p)),
    export: (id, o) => guard('snapshots.export', o, (p) => inner.export(id, p)),
    import: (id, owner, packed, o) => guard('snapshots.import', o, (p) => inner.import(id, owner, packed, p)),
  }
}

function guardedVolumes(inner: Volumes, guard: Guard): Volumes {
  return {
    create: (id, owner, bytes, o) => guard('volumes.create', o, (p) => inner.create(id, owner, bytes, p)),
    list: (owner, o) => guard('volumes.list', o, (p) => inner.list(owner, p)),
    remove: (id, o) => guard('volumes.remove', o, (p) => inner.remove(id, p)),
    stats: (id, o) => guard('volumes.stats', o, (p) => inner.stats(id, p)),
  }
}

function tooSlow(provider: string, call: string, timeoutMs: number): AgentPodError {
  return new AgentPodError({
    code: 'deadline_exceeded',
    reason: 'provider.timeout',
    message: `provider ${provider} did not finish ${call} within ${timeoutMs} ms`,
    hint: 'the machine may be overloaded; `agentpod doctor` checks each part',
  })
}

function canceled(call: string): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: `${call} was canceled` })
}
