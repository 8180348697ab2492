/** Translates E2B's request for a new sandbox. */
import type { Principal } from '../../core/principal.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { WhenOver } from '../../core/spec.ts'
import type { NewSandbox as Request } from '../../engine/lifecycle/sandbox-operations.ts'
import { toNetworkRequest } from './network.ts'
import { type NewSandboxBody, RESERVED } from './schema.ts'
import { findTemplate } from './template.ts'
import { unsupportedOption } from './unsupported.ts'

export const DEFAULT_TIMEOUT_S = 300
export const TEMPLATE_LABEL = `${RESERVED}template`

/** `snapshotOf` finds a snapshot by id or name; for E2B's clients it is a template. */
export function toCreateRequest(
  body: NewSandboxBody,
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
    network: toNetworkRequest(body, who),
    ports: {
      public: body.network?.allowPublicTraffic ?? true,
      ...(body.network?.maskRequestHost && { maskHost: body.network.maskRequestHost }),
    },
    ...(body.volumeMounts &&
      body.volumeMounts.length > 0 && {
        volumes: body.volumeMounts.map(({ name, path }) => ({ volume: name, path })),
      }),
    ...(template.kit && { kit: template.kit }),
    ...(template.snapshot !== undefined && { snapshot: template.snapshot }),
  }
}

function whenOver({ autoPause, autoPauseMemory }: NewSandboxBody): WhenOver {
  if (!autoPause) return 'destroy'
  return autoPauseMemory === false ? 'stop' : 'pause'
}

/** At least one second: E2B accepts 0, which would end the sandbox before it can be used. */
export function ttlMs(seconds: number | null | undefined): number {
  return Math.max(seconds ?? DEFAULT_TIMEOUT_S, 1) * 1000
}

function refuseLater(body: NewSandboxBody): void {
  if (body.mcp !== undefined && body.mcp !== null)
    throw unsupportedOption('mcp', 'the MCP gateway is planned for a later release')
  if (body.iam?.tokens && Object.keys(body.iam.tokens).length > 0)
    throw unsupportedOption('iam', 'identity tokens are planned for a later release')
}
