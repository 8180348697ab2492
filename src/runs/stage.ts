/** The sandbox that a run works in, and what the agent is started with there. */
import { Readable } from 'node:stream'
import type { Agent } from '../agents/agent.ts'
import { type Assignment, type Credential, type Launch, PLACEHOLDER } from '../agents/assignment.ts'
import { agentDirectory } from '../agents/install.ts'
import { homeOf } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Run } from '../core/run.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Live } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import { unpackInside } from '../guest/process.ts'
import { packContents } from '../sync/tar.ts'
import { defined } from '../util/defined.ts'
import type { RunPlan } from './plan.ts'

export const RUN_LABEL = 'agentpod/run'
const PROJECT_LABEL = 'agentpod/project'
/** Beyond the agent's own time: to begin, and to take the result. */
const SPARE_MS = 30 * 60_000

/** The sandbox of a run: made, found or started again. Asked twice for one run, it is one sandbox. */
export async function enterStage(engine: Engine, run: Run, plan: RunPlan): Promise<Sandbox> {
  const ttlMs = run.limits.timeMs + SPARE_MS
  if (run.sandboxId !== undefined) {
    const { state } = engine.get(run.sandboxId)
    if (state === 'stopped') return engine.start(run.sandboxId, undefined, { ttlMs })
    if (state === 'paused') return engine.resume(run.sandboxId, undefined, { ttlMs })
    return engine.extend(run.sandboxId, ttlMs)
  }
  return engine.create(
    {
      owner: run.owner,
      requestKey: `run ${run.id}`,
      labels: {
        [RUN_LABEL]: run.id,
        ...(plan.project && { [PROJECT_LABEL]: plan.project.name.replaceAll(/\p{C}/gu, '_').slice(0, 200) }),
      },
      snapshot: plan.snapshot,
      environment: plan.environment,
      resources: plan.resources,
      network: {
        // The snapshot's own is that of whoever prepared it: nothing.
        mode: 'allowlist',
        allow: [],
        ...defined(plan.network ?? {}),
        secrets: [...new Set([...(plan.network?.secrets ?? []), ...(plan.secret ? [plan.secret] : [])])],
        meter: true,
      },
      lifetime: { ttlMs, idleMs: 0, whenOver: 'stop', autoResume: true },
    },
    plan.asker,
  )
}

export function assignmentOf(
  agent: Agent,
  run: Run,
  plan: RunPlan,
  user: string,
  prompt: string,
  asks: boolean,
): Assignment {
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

/** Of an agent that pays for nothing we know of. */
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

/** Writes what an agent finds when it starts. */
export async function furnish(
  { guest, ended }: Live,
  sandbox: Sandbox,
  plan: RunPlan,
  launch: Launch,
): Promise<void> {
  const placeholder = sandbox.link?.placeholders[plan.secret ?? ''] ?? ''
  const files = [...plan.files, ...launch.files].map(({ path, content }) => ({
    path,
    data: Buffer.from(content.replaceAll(PLACEHOLDER, placeholder)),
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

/** The way into the sandbox of a run that is at work. */
export function liveOf(engine: Engine, id: SandboxId | undefined): Live {
  if (id !== undefined) return engine.live(id)
  throw new AgentPodError({
    code: 'not_found',
    reason: 'run.no_sandbox',
    message: 'the run has no sandbox any more',
    hint: 'start a new one: `agentpod run`',
  })
}
