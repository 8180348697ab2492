/** One step of a build, in a sandbox that is made for it. */
import type { Readable } from 'node:stream'
import { AgentPodError, asAgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { RecipeBase, Step } from '../core/recipe.ts'
import type { Engine } from '../engine/engine.ts'
import { type InsideExit, runInside, unpackInside } from '../guest/process.ts'
import type { BuildOptions } from './build-options.ts'

/** Build sandboxes carry it: `step` while a step runs, `failed` where one was kept to look into. */
export const BUILD_LABEL = 'agentpod/build'

const UNPACK_MS = 10 * 60_000
/** Beyond the step's own time: to be made, to be kept. */
const SPARE_MS = 15 * 60_000
const KEPT_MS = 3_600_000

export interface StepJob {
  readonly base: RecipeBase
  readonly step: Step
  /** The layer that it runs on; the base itself when left out. */
  readonly parent: string | undefined
  archive(): Readable | undefined
}

export interface StepResult {
  readonly sandboxId: SandboxId
}

/** The sandbox lives on when the step succeeds. When it fails, nothing is left but what was asked to be kept. */
export async function runStep(engine: Engine, job: StepJob, o: BuildOptions): Promise<StepResult> {
  const { step } = job
  const sandbox = await engine.create(
    {
      owner: o.who.owner,
      labels: { [BUILD_LABEL]: 'step', 'agentpod/project': o.project },
      environment: {
        base: job.base.name,
        digest: job.parent,
        user: step.user,
        path: step.path,
        // Root inside a build has to give files to others.
        sudo: step.user === 'root',
      },
      suite: job.base.suite,
      lifetime: { ttlMs: step.timeoutMs + SPARE_MS, whenOver: 'destroy', autoResume: false },
      network: {
        mode: step.network.length > 0 ? 'allowlist' : 'off',
        allow: step.network,
        intercept: 'all',
        cache: true,
      },
    },
    o.who,
  )
  try {
    await perform(engine, sandbox.id, job, o)
    return { sandboxId: sandbox.id }
  } catch (error) {
    const failure = asAgentPodError(error)
    const isKept = o.keepFailed && failure.reason.startsWith('build.step')
    if (isKept) await engine.extend(sandbox.id, KEPT_MS)
    else await engine.destroy(sandbox.id)
    throw isKept ? withSandbox(failure, sandbox.id) : failure
  }
}

async function perform(engine: Engine, id: SandboxId, job: StepJob, o: BuildOptions): Promise<void> {
  const { guest, ended } = engine.live(id)
  const { step } = job
  const gone = AbortSignal.any([o.signal, ended.signal])
  const archive = job.archive()
  if (archive && step.files)
    await unpackInside(guest, {
      archive,
      to: step.files.to,
      user: step.user,
      signal: AbortSignal.any([gone, AbortSignal.timeout(UNPACK_MS)]),
    })
  if (step.run === '') return
  const startedAt = performance.now()
  const { run, user, workdir, variables, timeoutMs } = step
  const exit = await runInside(
    guest,
    { run, user, workdir, variables, timeoutMs },
    {
      signal: gone,
      onOutput: (data) => o.onEvent({ kind: 'output', name: step.name, data }),
    },
  )
  if (exit.exitCode === 0 && !exit.signal) return
  const isLate = performance.now() - startedAt >= timeoutMs
  throw stepFailed(step, isLate ? 'late' : exit)
}

function stepFailed(step: Step, how: 'late' | InsideExit): AgentPodError {
  const why =
    how === 'late'
      ? `it did not end within ${Math.round(step.timeoutMs / 60_000)} minutes`
      : how.oomKilled
        ? 'it ran out of memory'
        : how.signal
          ? `it was ended by ${how.signal}`
          : `exit code ${how.exitCode}`
  return new AgentPodError({
    code: how === 'late' ? 'deadline_exceeded' : 'failed_precondition',
    reason: how === 'late' ? 'build.step_late' : 'build.step_failed',
    message: `the step "${step.title}" failed: ${why}`,
    hint: '`agentpod build --debug` opens a shell where it failed',
    details: { step: step.name, command: step.run },
  })
}

function withSandbox(error: AgentPodError, sandbox: SandboxId): AgentPodError {
  const { code, reason, message, hint, details } = error
  return new AgentPodError({ code, reason, message, hint, details: { ...details, sandbox }, cause: error })
}
