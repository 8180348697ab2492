/** Translates E2B's request for a new sandbox. */
import type { AgentPodError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { WhenOver } from '../../core/spec.ts'
import type { NewSandbox as Request } from '../../engine/lifecycle/sandbox-operations.ts'
import { toNetworkRequest } from './network.ts'
import { type NewSandboxBody, RESERVED } from './schema.ts'
import type { Template } from './template.ts'
import { unsupportedOption } from './unsupported.ts'

export const DEFAULT_TIMEOUT_S = 300
export const TEMPLATE_LABEL = `${RESERVED}template`
/** The name of the template. */
export const ALIAS_LABEL = `${RESERVED}template-name`

export function toCreateRequest(body: NewSandboxBody, who: Principal, template: Template): Request {
  refuseLater(body, template)
  return {
    owner: who.owner,
    labels: {
      ...body.metadata,
      [TEMPLATE_LABEL]: template.id,
      ...(template.alias !== template.id && { [ALIAS_LABEL]: template.alias }),
    },
    environment: {
      ...template.environment,
      variables: { ...template.environment.variables, ...body.envVars },
    },
    lifetime: {
      ttlMs: ttlMs(body.timeout),
      whenOver: whenOver(body),
      // E2B's users expect that a pause takes no memory of the machine and outlives it.
      ...(whenOver(body) === 'pause' && { toDiskAfterMs: 0 }),
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
    ...(template.suite !== undefined && { suite: template.suite }),
    // Every template names its resources, and an ordinary user's machine may enforce none.
    ...(template.resources && { resources: template.resources, areLimitsOptional: true }),
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

/** The template that the SDKs ask for with the option `mcp`; they then run `mcp-gateway` in the sandbox. */
export const MCP_TEMPLATE = 'mcp-gateway'

export function noMcpGateway(): AgentPodError {
  return unsupportedOption(
    'mcp',
    `E2B's MCP gateway is no part of AgentPod; build a template named ${MCP_TEMPLATE} that has a program ${MCP_TEMPLATE}`,
  )
}

function refuseLater(body: NewSandboxBody, { record, snapshot }: Template): void {
  // Only a template that somebody built can have the gateway.
  if (body.mcp !== undefined && body.mcp !== null && !record && !snapshot) throw noMcpGateway()
  if (body.iam?.tokens && Object.keys(body.iam.tokens).length > 0)
    throw unsupportedOption('iam', 'identity tokens are planned for a later release')
}
