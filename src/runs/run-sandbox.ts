/** The sandbox of a run, and the files that the agent is started with. */

import { Readable } from 'node:stream'
import type { Agent } from '../agents/agent.ts'
import { type Assignment, type Credential, KEY_PLACEHOLDER, type Launch } from '../agents/assignment.ts'
import { agentDirectory } from '../agents/install.ts'
import { homeOf } from '../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import { LOCAL } from '../core/principal.ts'
import { RUN_LABEL, type Run } from '../core/run.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { GuestConnection } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import { unpackInside } from '../guest/run-command.ts'
import { packContents } from '../sync/tar.ts'
import { dropUndefined } from '../util/drop-undefined.ts'
import { replaceControls } from '../util/hidden-characters.ts'
import type { RunPlan } from './plan.ts'

const PROJECT_LABEL = 'agentpod/project'
/** Added to the agent's own time, for starting it and taking the result. */
const SPARE_MS = 30 * 60_000

/** Creates, finds or restarts the sandbox of a run. Two calls for one run give one sandbox. */
export async function openRunSandbox(engine: Engine, run: Run, plan: RunPlan): Promise<Sandbox> {
  const ttlMs = run.limits.timeMs + SPARE_MS
  if (run.sandboxId !== undefined) {
    const { state } = engine.sandboxes.get(run.sandboxId, LOCAL)
    if (state === 'stopped') return engine.sandboxes.start(run.sandboxId, LOCAL, { ttlMs })
    if (state === 'paused') return engine.sandboxes.resume(run.sandboxId, LOCAL, { ttlMs })
    return engine.sandboxes.extend(run.sandboxId, ttlMs, LOCAL)
  }
  return engine.sandboxes.create(
    {
      owner: run.owner,
      requestKey: `run ${run.id}`,
      labels: {
        [RUN_LABEL]: run.id,
        ...(plan.project && { [PROJECT_LABEL]: replaceControls(plan.project.name, '_').slice(0, 200) }),
      },
      snapshot: plan.snapshot,
      environment: plan.environment,
      resources: plan.resources,
      docker: plan.docker,
      volumes: plan.volumes,
      ...(plan.place && { place: plan.place }),
      network: {
        // The snapshot was prepared without a network, so the policy is set here and not inherited.
        mode: 'allowlist',
        allow: [],
        ...dropUndefined(plan.network ?? {}),
        secrets: [...new Set([...(plan.network?.secrets ?? []), ...(plan.secret ? [plan.secret] : [])])],
        meter: true,
      },
      lifetime: { ttlMs, idleMs: 0, whenOver: 'stop', autoResume: true },
    },
    plan.asker,
  )
}

/**
 * Destroys the group whose main place was kept for a run that has ended without a sandbox. A group ends with
 * its main sandbox, and nothing else will take the place.
 */
export async function destroyUnusedGroup(engine: Engine, run: Run, { place }: RunPlan): Promise<void> {
  if (!place || run.sandboxId !== undefined) return
  // SECURITY: GP-01. Only a group of the run's owner is found.
  const owner = { owner: run.owner, isAdmin: false }
  try {
    const { group, sandboxes } = engine.groups.get(place.group, owner)
    const isMain = group.members.some(({ name, isMain: is }) => is && name === place.member)
    const taken = sandboxes.get(place.member)
    if (!isMain || (taken && taken.endedAt === undefined)) return
    await engine.groups.destroy(group.id, owner)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
  }
}

export interface AssignmentParts {
  readonly agent: Agent
  readonly run: Run
  readonly plan: RunPlan
  readonly user: string
  readonly prompt: string
  /** Whether the agent must ask before it does something. */
  readonly asks: boolean
}

export function assignmentOf({ agent, run, plan, user, prompt, asks }: AssignmentParts): Assignment {
  const home = homeOf(user)
  const credential = credentialOf(agent, plan)
  return {
    directory: agentDirectory(agent),
    home,
    workspace: [plan.project?.workspace ?? home, plan.project?.directory].filter(Boolean).join('/'),
    model: plan.model,
    credential,
    baseUrl: plan.baseUrl ?? credential.baseUrl,
    mcpServers: plan.mcpServers,
    asks,
    session: run.session,
    prompt,
    command: plan.command,
  }
}

/** For agents without a known credential. */
const NO_CREDENTIAL: Credential = {
  variable: '',
  title: 'nothing',
  baseUrl: '',
  header: '',
  scheme: { kind: 'bare' },
}

function credentialOf(agent: Agent, plan: RunPlan): Credential {
  return agent.credentials.find(({ variable }) => variable === plan.credential) ?? NO_CREDENTIAL
}

/** Writes the files that the agent finds when it starts. */
export async function writeAgentFiles(
  { guest, ended }: GuestConnection,
  sandbox: Sandbox,
  plan: RunPlan,
  launch: Launch,
): Promise<void> {
  const placeholder = sandbox.link?.placeholders[plan.secret ?? ''] ?? ''
  const files = [...plan.files, ...launch.files].map(({ path, content }) => ({
    path,
    data: Buffer.from(content.replaceAll(KEY_PLACEHOLDER, placeholder)),
    isExecutable: false,
  }))
  if (files.length === 0) return
  const { user } = sandbox.spec.environment
  await unpackInside(guest, {
    archive: Readable.from([packContents([...new Map(files.map((file) => [file.path, file])).values()])], {
      objectMode: false,
    }),
    to: homeOf(user),
    user,
    signal: AbortSignal.any([ended.signal, AbortSignal.timeout(60_000)]),
  })
}

/** The connection to the sandbox of a run. */
export function runConnection(engine: Engine, id: SandboxId | undefined): GuestConnection {
  if (id !== undefined) return engine.guests.connection(id, LOCAL)
  throw new AgentPodError({
    code: 'not_found',
    reason: 'run.no_sandbox',
    message: 'the sandbox of the run was removed',
    hint: 'start a new run with `agentpod run`',
  })
}
