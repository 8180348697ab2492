/** Sandboxes, snapshots and events in the form of the API. */
import type { SandboxEvent } from '../../core/event.ts'
import type { NetworkSpec, SandboxLink } from '../../core/network.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { VolumeMount } from '../../core/volume/volume.ts'
import type { EventView, SandboxView } from '../schema/sandbox.ts'
import type { SnapshotView } from '../schema/snapshot.ts'

export function sandboxView(s: Sandbox): SandboxView {
  const { environment, resources, lifetime } = s.spec
  return {
    id: s.id,
    name: s.name ?? null,
    state: s.state,
    provider: s.provider,
    isolation: s.isolation,
    labels: { ...s.labels },
    base: environment.base,
    ...(environment.image && { image: environment.image }),
    ...(environment.digest && { environment: environment.digest }),
    ...(environment.services && { services: environment.services.map(({ name }) => name) }),
    user: environment.user,
    workdir: environment.workdir,
    sudo: environment.sudo,
    resources: { ...resources },
    limits: s.limits ? { ...s.limits } : null,
    network: networkView(s.spec.network, s.link),
    ...(s.spec.volumes && { volumes: s.spec.volumes.map(mountedVolumeView) }),
    ...(s.spec.ephemeral && { ephemeral: s.spec.ephemeral.map((one) => ({ ...one })) }),
    createdAt: time(s.createdAt),
    startedAt: s.startedAt === undefined ? null : time(s.startedAt),
    deadlineAt: time(s.deadlineAt),
    lifetime: { ...lifetime },
    idleMs: lifetime.idleMs,
    snapshotId: s.tip ?? null,
    forkedFrom: s.forkedFrom ?? null,
    ...pauseView(s),
    endedAt: s.endedAt === undefined ? null : time(s.endedAt),
    ending: s.ending ? { ...s.ending } : null,
  }
}

function pauseView({ state, pausedAt, savedBytes }: Sandbox): Partial<SandboxView> {
  if (state !== 'paused') return {}
  return {
    ...(pausedAt !== undefined && { pausedAt: time(pausedAt) }),
    pausedIn: savedBytes === undefined ? 'memory' : 'disk',
    ...(savedBytes !== undefined && { savedBytes }),
  }
}

export function networkView(spec: NetworkSpec, link: SandboxLink | undefined): SandboxView['network'] {
  return {
    mode: spec.mode,
    level: link?.level ?? 'none',
    reason: link?.reason ?? null,
    secrets: [...spec.secrets],
  }
}

function mountedVolumeView({
  volume,
  name,
  path,
  isReadOnly,
}: VolumeMount): NonNullable<SandboxView['volumes']>[number] {
  return { id: volume, name, path, readOnly: isReadOnly }
}

export function snapshotView(s: Snapshot): SnapshotView {
  return {
    id: s.id,
    name: s.name ?? null,
    state: s.state === 'lost' ? 'lost' : 'ready',
    provider: s.provider,
    labels: { ...s.labels },
    base: s.spec.environment.base,
    sandboxId: s.sandboxId ?? null,
    parentId: s.parentId ?? null,
    sizeBytes: s.sizeBytes,
    fidelity: s.memory ? 'memory' : 'files',
    memoryBytes: s.memory?.sizeBytes ?? 0,
    createdAt: time(s.createdAt),
  }
}

export function eventView(event: SandboxEvent): EventView {
  return { seq: event.seq, at: time(event.at), type: event.type, data: { ...event.data } }
}

function time(ms: number): string {
  return new Date(ms).toISOString()
}
