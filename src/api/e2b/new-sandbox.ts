/** E2B's request for a sandbox as ours. */
import type { Snapshot } from '../../core/snapshot.ts'
import type { WhenOver } from '../../core/spec.ts'
import type { NewSandbox as Request } from '../../engine/engine.ts'
import { laterOption } from './later.ts'
import { type Network, type NewSandbox, RESERVED } from './schema.ts'
import { findTemplate } from './template.ts'

export const DEFAULT_TIMEOUT_S = 300
export const TEMPLATE_LABEL = `${RESERVED}template`
/** What was said about internet access, where something was said. */
export const INTERNET_LABEL = `${RESERVED}internet`

/** `snapshotOf` finds the snapshot of that id or name: to E2B it is a template like another. */
export function createRequest(
  body: NewSandbox,
  owner: string,
  snapshotOf: (ref: string) => Snapshot | undefined,
): Request {
  const template = findTemplate(body.templateID, snapshotOf)
  refuseLater(body)
  const internet = body.allow_internet_access ?? undefined
  return {
    owner,
    labels: {
      ...body.metadata,
      [TEMPLATE_LABEL]: template.id,
      ...(internet !== undefined && { [INTERNET_LABEL]: String(internet) }),
    },
    environment: { ...template.environment, variables: body.envVars ?? {} },
    lifetime: {
      ttlMs: ttlMs(body.timeout),
      whenOver: whenOver(body),
      autoResume: body.autoResume?.enabled ?? false,
    },
    ports: { public: body.network?.allowPublicTraffic ?? true },
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
  if (body.network) refuseRules(body.network)
}

/** SECURITY: a rule that would not be kept is refused, not stored. */
function refuseRules(network: Network): void {
  const asked = (
    ['allowOut', 'denyOut', 'maskRequestHost', 'httpsPorts', 'rules', 'egressProxy'] as const
  ).find((name) => !isEmpty(network[name]))
  if (asked)
    throw laterOption(
      `network.${asked}`,
      'sandboxes have no network yet; rules for it come with a later release',
    )
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}
