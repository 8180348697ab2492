/** E2B's request for a sandbox as ours. */
import type { Principal } from '../../core/principal.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { WhenOver } from '../../core/spec.ts'
import type { NewSandbox as Request } from '../../engine/engine.ts'
import { laterOption } from './later.ts'
import { networkRequest } from './network.ts'
import { type NewSandbox, RESERVED } from './schema.ts'
import { findTemplate } from './template.ts'

export const DEFAULT_TIMEOUT_S = 300
export const TEMPLATE_LABEL = `${RESERVED}template`

/** `snapshotOf` finds the snapshot of that id or name: to E2B it is a template like another. */
export function createRequest(
  body: NewSandbox,
  who: Principal,
  snapshotOf: (ref: string) => Snapshot | undefined,
): Request {
  const template = findTemplate(body.templateID, snapshotOf)
  refuseLater(body)
  return {
    owner: who.owner,
    labels: { ...body.metadata, [TEMPLATE_LABEL]: template.id },
    environment: { ...template.environment, variables: body.envVars ?? {} },
    lifetime: {
      ttlMs: ttlMs(body.timeout),
      whenOver: whenOver(body),
      autoResume: body.autoResume?.enabled ?? false,
    },
    network: networkRequest(body, who),
    ports: {
      public: body.network?.allowPublicTraffic ?? true,
      ...(body.network?.maskRequestHost && { maskHost: body.network.maskRequestHost }),
    },
    ...(template.kit && { kit: template.kit }),
    ...(template.snapshot !== undefined && { snapshot: template.snapshot }),
  }
}

function whenOver({ autoPause, autoPauseMemory }: NewSandbox): WhenOver {
  if (!autoPause) return 'destroy'
  return autoPauseMemory === false ? 'stop' : 'pause'
}

/** At least a second: E2B takes 0, and its sandbox is over before anybody can use it. */
export function ttlMs(seconds: number | null | undefined): number {
  return Math.max(seconds ?? DEFAULT_TIMEOUT_S, 1) * 1000
}

function refuseLater(body: NewSandbox): void {
  if (body.volumeMounts && body.volumeMounts.length > 0)
    throw laterOption('volumeMounts', 'volumes come with a later release')
  if (body.mcp !== undefined && body.mcp !== null)
    throw laterOption('mcp', 'the MCP gateway comes with a later release')
  if (body.iam?.tokens && Object.keys(body.iam.tokens).length > 0)
    throw laterOption('iam', 'identity tokens come with a later release')
}
