/** The sandbox of one step of a build: what becomes of it when the step ends. */
import { AgentPodError, asAgentPodError } from '../core/error.ts'
import type { ProcessExit } from '../core/guest-process.ts'
import type { SandboxId } from '../core/id.ts'
import { LOCAL } from '../core/principal.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { LayerInfo } from '../core/snapshot.ts'
import type { Engine } from '../engine/engine.ts'
import { LAYER_OWNER } from '../engine/snapshots/layers.ts'
import type { Layer } from '../engine/snapshots/snapshot-registry.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { failpoint } from '../util/failpoint.ts'
import type { BuildJob } from './build-request.ts'

/** Label of build sandboxes: `step` while a step runs, `failed` for one that was kept for debugging. */
export const BUILD_LABEL = 'agentpod/build'
const PROJECT_LABEL = 'agentpod/project'
const ASKER_LABEL = 'agentpod/asked-by'

/** Who asked for the build, and for which project. */
export function buildLabels(o: Pick<BuildJob, 'project' | 'who'>): Record<string, string> {
  return { [PROJECT_LABEL]: o.project, [ASKER_LABEL]: o.who.owner }
}

/** Extra time beyond the step's limit, to create the sandbox and store the layer. */
export const SPARE_MS = 15 * 60_000
const KEPT_MS = 3_600_000

export interface BuildSandboxParts {
  readonly engine: Engine
  readonly log: Log
}

/** The sandbox stays if the work succeeds. Otherwise it is destroyed, unless it should be kept. */
export async function inBuildSandbox<T>(
  parts: BuildSandboxParts,
  sandbox: Sandbox,
  o: Pick<BuildJob, 'keepFailed' | 'project' | 'who'>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const failure = await withRefused(parts.engine, sandbox.id, asAgentPodError(error))
    if (o.keepFailed && failure.reason.startsWith('build.step'))
      throw await keepSandbox(parts.engine, sandbox, failure, o)
    await destroyBuildSandbox(parts, sandbox.id)
    throw failure
  }
}

/** What the sandbox wrote becomes a layer, and the sandbox is destroyed. */
export async function keepLayer(
  parts: BuildSandboxParts & { readonly clock: Clock },
  id: SandboxId,
  info: Omit<LayerInfo, 'usedAt'>,
): Promise<Layer> {
  const { engine, clock } = parts
  try {
    await engine.sandboxes.stop(id, LOCAL)
    failpoint('build.ran')
    const layer = await engine.layers.create(id, { ...info, usedAt: clock.now() })
    failpoint('build.kept')
    return layer
  } finally {
    await destroyBuildSandbox(parts, id)
  }
}

export async function destroyBuildSandbox({ engine, log }: BuildSandboxParts, id: SandboxId): Promise<void> {
  await engine.sandboxes
    .destroy(id, LOCAL)
    .catch((error) => ignore(log, error, `the build sandbox ${id} stays until its time to live ends`))
}

/** Why a command of a build failed. */
export function exitText({ oomKilled, signal, exitCode }: ProcessExit): string {
  if (oomKilled) return 'it ran out of memory'
  return signal ? `it was killed by ${signal}` : `exit code ${exitCode}`
}

/** Network decisions arrive with a short delay. */
const DECIDED_MS = 600
const MOST_NAMED = 20

/** Adds the hosts that were denied to the step: package managers seldom name them. */
async function withRefused(engine: Engine, id: SandboxId, failure: AgentPodError): Promise<AgentPodError> {
  if (failure.reason !== 'build.step_failed' && failure.reason !== 'build.step_late') return failure
  await new Promise((resolve) => setTimeout(resolve, DECIDED_MS))
  const hosts = engine.events
    .list(id, 0, BUILDER, 'network.decision')
    .flatMap(({ data }) => (data['verdict'] === 'denied' ? [`${data['host']}:${data['port']}`] : []))
  const refused = [...new Set(hosts)].slice(0, MOST_NAMED)
  if (refused.length === 0) return failure
  const { code, reason, message, hint, details } = failure
  return new AgentPodError({ code, reason, message, hint, details: { ...details, refused }, cause: failure })
}

const BUILDER = { owner: LAYER_OWNER, isAdmin: true }

/** Transfers the sandbox to the caller, because it will not become a layer. */
async function keepSandbox(
  engine: Engine,
  { id }: Sandbox,
  failure: AgentPodError,
  o: Pick<BuildJob, 'project' | 'who'>,
): Promise<AgentPodError> {
  const { code, reason, message, hint, details } = failure
  await engine.sandboxes.transferOwnership(id, {
    owner: o.who.owner,
    labels: { [BUILD_LABEL]: 'failed', [PROJECT_LABEL]: o.project },
  })
  await engine.sandboxes.extend(id, KEPT_MS, LOCAL)
  return new AgentPodError({
    code,
    reason,
    message,
    hint,
    details: { ...details, sandbox: id },
    cause: failure,
  })
}
