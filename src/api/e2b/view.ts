/** Records in the form of E2B's API. */
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { SandboxTokens } from '../door/sandbox-tokens.ts'
import { networkInfo } from './network.ts'
import { ALIAS_LABEL, TEMPLATE_LABEL } from './new-sandbox.ts'
import { RESERVED } from './schema.ts'
import { e2bStateOf } from './state.ts'

/** A version at which the SDKs enable every feature; podd has them all. */
export const ENVD_VERSION = '0.6.13'
/** Obsolete at E2B, but still a required field. */
const CLIENT_ID = 'agentpod'

export interface AccessParts {
  readonly tokens: SandboxTokens
  /** A port of a sandbox is at `<port>-<id>.<domain>`. */
  readonly domain: string | null
}

/** The answer to create and connect, with everything a client needs to reach the sandbox. */
export function createdView(sandbox: Sandbox, { tokens, domain }: AccessParts): object {
  return {
    ...identity(sandbox),
    envdAccessToken: tokens.dataToken(sandbox.id),
    trafficAccessToken: sandbox.spec.ports?.public ? null : tokens.trafficToken(sandbox.id),
    domain,
  }
}

export function listedView(sandbox: Sandbox): object {
  const { resources } = sandbox.spec
  return {
    ...identity(sandbox),
    startedAt: time(startedAt(sandbox)),
    endAt: time(sandbox.deadlineAt),
    state: e2bStateOf(sandbox) ?? 'running',
    cpuCount: Math.max(1, Math.round(resources.cpus)),
    memoryMB: resources.memoryMib,
    diskSizeMB: diskMib(sandbox),
    metadata: metadataOf(sandbox),
    volumeMounts: (sandbox.spec.volumes ?? []).map(({ name, path }) => ({ name, path })),
  }
}

export function detailView(sandbox: Sandbox, { tokens, domain }: AccessParts): object {
  const { lifetime, network } = sandbox.spec
  return {
    ...listedView(sandbox),
    envdAccessToken: tokens.dataToken(sandbox.id),
    domain,
    allowInternetAccess: network.mode === 'open',
    network: {
      ...networkInfo(network),
      allowPublicTraffic: sandbox.spec.ports?.public ?? false,
      ...(sandbox.spec.ports?.maskHost && { maskRequestHost: sandbox.spec.ports.maskHost }),
    },
    lifecycle: {
      autoResume: lifetime.autoResume,
      onTimeout: lifetime.whenOver === 'destroy' ? 'kill' : 'pause',
    },
    ...(sandbox.state === 'paused' && { pauseMode: 'full' }),
    ...(sandbox.state === 'stopped' && { pauseMode: 'filesystem' }),
  }
}

/** 0 where the size is not limited: the files then count against the host's disk. */
export function diskMib({ limits, spec }: Sandbox): number {
  return limits?.disk?.level === 'enforced' ? spec.resources.diskMib : 0
}

export function snapshotInfo({ id, name }: Snapshot): object {
  return { snapshotID: id, names: name === undefined ? [] : [name] }
}

/** When the sandbox started; E2B orders its pages by it. */
export function startedAt(sandbox: Sandbox): number {
  return sandbox.startedAt ?? sandbox.createdAt
}

export function templateOf(sandbox: Sandbox): string {
  return sandbox.labels[TEMPLATE_LABEL] ?? sandbox.spec.environment.base
}

/** The labels that the client set, without AgentPod's own. */
export function metadataOf({ labels }: Sandbox): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !key.startsWith(RESERVED)))
}

/** A template of the server itself. */
export function templateView(name: string): object {
  return {
    templateID: name,
    buildID: '00000000-0000-0000-0000-000000000000',
    aliases: [name],
    names: [name],
    public: true,
    cpuCount: 2,
    memoryMB: 4096,
    diskSizeMB: 0,
    createdAt: time(0),
    updatedAt: time(0),
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: 1,
    buildStatus: 'ready',
    envdVersion: ENVD_VERSION,
  }
}

function identity(sandbox: Sandbox): {
  sandboxID: SandboxId
  templateID: string
  alias: string
  clientID: string
  envdVersion: string
} {
  const template = templateOf(sandbox)
  return {
    sandboxID: sandbox.id,
    templateID: template,
    alias: sandbox.labels[ALIAS_LABEL] ?? template,
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
  }
}

function time(ms: number): string {
  return new Date(ms).toISOString()
}
