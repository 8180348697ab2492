/** One step of a build, in a sandbox that is made for it. */

import type { Readable } from 'node:stream'
import { imageOf } from '../bases/image.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { ProcessExit } from '../core/guest-process.ts'
import type { SandboxId } from '../core/id.ts'
import { imageText } from '../core/image-ref.ts'
import { LOCAL } from '../core/principal.ts'
import type { RecipeBase, Step } from '../core/recipe.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Engine } from '../engine/engine.ts'
import { LAYER_OWNER } from '../engine/snapshots/layers.ts'
import { runInside, unpackInside } from '../guest/run-command.ts'
import type { Log } from '../telemetry/log.ts'
import { formatDuration } from '../util/format-duration.ts'
import type { BuildJob } from './build-request.ts'
import { BUILD_LABEL, buildLabels, exitText, inBuildSandbox, SPARE_MS } from './build-sandbox.ts'

const UNPACK_MS = 10 * 60_000
const FORGET_MS = 2 * 60_000

export interface StepJob {
  readonly base: RecipeBase
  readonly step: Step
  /** The layer that it runs on; the base itself when left out. */
  readonly parent: string | undefined
  archive(): Readable | undefined
}

/**
 * The sandbox stays when the step succeeds. When it fails, the sandbox is destroyed unless it should be kept.
 */
export async function runStep(engine: Engine, log: Log, job: StepJob, o: BuildJob): Promise<SandboxId> {
  const sandbox = await makeSandbox(engine, job, o)
  return await inBuildSandbox({ engine, log }, sandbox, o, async () => {
    await perform(engine, sandbox, job, o)
    return sandbox.id
  })
}

function makeSandbox(engine: Engine, { base, step, parent }: StepJob, o: BuildJob): Promise<Sandbox> {
  return engine.sandboxes.create(
    {
      owner: LAYER_OWNER,
      provider: o.provider,
      labels: { [BUILD_LABEL]: 'step', ...buildLabels(o) },
      environment: {
        base: base.name,
        ...(base.image !== undefined && { image: imageText(imageOf(base)) }),
        digest: parent,
        user: step.user,
        path: step.path,
        // Root in a build must be able to change the owner of files.
        sudo: step.user === 'root',
      },
      suite: base.suite,
      kit: base.kit,
      lifetime: { ttlMs: step.timeoutMs + SPARE_MS, whenOver: 'destroy', autoResume: false },
      network: {
        mode: step.anyHost ? 'open' : step.network.length > 0 ? 'allowlist' : 'off',
        allow: step.network,
        intercept: 'all',
        cache: true,
      },
    },
    o.who,
  )
}

async function perform(engine: Engine, { id, link }: Sandbox, job: StepJob, o: BuildJob): Promise<void> {
  const { guest, ended } = engine.guests.connection(id, LOCAL)
  const { step } = job
  const gone = AbortSignal.any([o.signal, ended.signal])
  try {
    const archive = job.archive()
    if (archive && step.files)
      await unpackInside(guest, {
        archive,
        to: step.files.to,
        user: step.user,
        signal: AbortSignal.any([gone, AbortSignal.timeout(UNPACK_MS)]),
      })
    if (step.run !== '') await command(guest, step, gone, o)
    if (link?.authority) await forgetTrust(guest, gone)
  } catch (error) {
    if (ended.signal.aborted && !o.signal.aborted) throw endedEarly(step, error)
    throw error
  }
}

type Guest = ReturnType<Engine['guests']['connection']>['guest']

async function command(guest: Guest, step: Step, gone: AbortSignal, o: BuildJob): Promise<void> {
  const startedAt = performance.now()
  const { name, run, user, workdir, variables, timeoutMs } = step
  const isOver = (): boolean => performance.now() - startedAt >= timeoutMs
  let exit: ProcessExit
  try {
    exit = await runInside(
      guest,
      { run, user, workdir, variables, timeoutMs },
      { signal: gone, onOutput: (data) => o.onEvent({ kind: 'output', name, data }) },
    )
  } catch (error) {
    throw isAgentPodError(error, 'deadline_exceeded') ? stepFailed(step, 'late') : error
  }
  if (exit.exitCode === 0 && !exit.signal) return
  throw stepFailed(step, isOver() ? 'late' : exit)
}

/**
 * SECURITY: SE-09. A sandbox trusts its own certificate authority, which is written into its files. A sandbox
 * on this layer has another authority and must not trust this one, even if the step made new certificate
 * bundles.
 */
const FORGET_TRUST = `set -e
rm -f /usr/local/share/ca-certificates/agentpod.crt
if [ -L /etc/ssl/certs/agentpod.pem ] && command -v update-ca-certificates >/dev/null; then update-ca-certificates >/dev/null 2>&1 || :; fi
rm -f /etc/ssl/certs/agentpod.pem
for name in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
  bundle=$(readlink -f "$name") || continue
  [ -f "$bundle" ] || continue
  if grep -q '^# AgentPod: ' "$bundle"; then sed -i '/^# AgentPod: /,$d' "$bundle"; fi
done; exit 0`

async function forgetTrust(guest: Guest, gone: AbortSignal): Promise<void> {
  const { exitCode } = await runInside(
    guest,
    { run: FORGET_TRUST, user: 'root', workdir: '/', variables: {}, timeoutMs: FORGET_MS },
    { signal: gone },
  )
  if (exitCode === 0) return
  throw new AgentPodError({
    code: 'internal',
    reason: 'build.trust',
    message: 'the certificate of the build sandbox could not be removed from its files',
  })
}

function stepFailed(step: Step, how: 'late' | ProcessExit): AgentPodError {
  const why = how === 'late' ? `it did not finish within ${formatDuration(step.timeoutMs)}` : exitText(how)
  return new AgentPodError({
    code: how === 'late' ? 'deadline_exceeded' : 'failed_precondition',
    reason: how === 'late' ? 'build.step_late' : 'build.step_failed',
    message: `the step "${step.title}" failed: ${why}`,
    hint:
      how === 'late'
        ? '[resources] step_timeout = "2h" in agentpod.toml gives each step more time; `agentpod build --debug` opens a shell in the sandbox of the step'
        : '`agentpod build --debug` opens a shell in the sandbox of the failed step',
    details: { step: step.name, command: step.run },
  })
}

function endedEarly(step: Step, cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'build.sandbox_ended',
    message: `the sandbox of the step "${step.title}" stopped before the step finished`,
    hint: 'try again; if it ran out of memory, run fewer jobs in parallel',
    details: { step: step.name, command: step.run },
    cause,
  })
}
