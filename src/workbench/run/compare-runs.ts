/** Compares runs: the changes of each, and whether the project's own tests pass on them. */
import type { AgentPod } from '../../client/client.ts'
import type { Run, RunInfo } from '../../client/runs.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { asAgentPodError, isAgentPodError } from '../../core/error.ts'
import type { ChangedFile } from '../../sync/git/plumbing/diff.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { loadEnvironment } from '../environment/load-environment.ts'
import type { SandboxRequest } from '../environment/sandbox-request.ts'
import { testScript } from '../environment/test-script.ts'
import { loadNetwork } from '../network/load-network.ts'
import { openProject } from '../project/open-project.ts'
import { openResult } from '../result/open-result.ts'
import type { Workbench } from '../workbench.ts'
import { labelOf } from './run-label.ts'

/** `none`: the project has no known tests. `unknown`: they could not be run. */
export type Tests =
  | { readonly state: 'passed' | 'timed out' | 'none' | 'unknown' }
  | { readonly state: 'failed'; readonly exitCode: number; readonly tail: string }

export interface Compared {
  readonly info: RunInfo
  readonly tests: Tests
  readonly changes: readonly ChangedFile[]
  /** How many of them would run later on this machine. */
  readonly gated: number
}

export interface TestPlan {
  /** For /bin/sh. */
  readonly script: string
  readonly begins: boolean
  readonly network: CreateOptions['network']
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** The project's tests in its environment. Undefined when the project has no known tests. */
export async function testPlan(
  bench: Workbench,
  repo: Repository,
  request: SandboxRequest,
  o: Pick<TestPlan, 'timeoutMs' | 'signal'>,
): Promise<TestPlan | undefined> {
  const project = await openProject(bench, 'user', repo.root)
  const ready = await loadEnvironment(bench, request, project)
  const commands = ready?.commands.test ?? []
  if (!ready || commands.length === 0) return undefined
  const network = await loadNetwork(bench, request.network, { directory: repo.root, wish: ready.wish })
  return { ...o, script: testScript(commands), begins: ready.begins, network: network?.network }
}

const AT_ONCE = 2
/** No copy takes so long to make. */
const FORGOTTEN_MS = 3_600_000
const COMPARING = { 'agentpod/compare': 'tests' }
const TAIL_BYTES = 2000
/** Time beyond the tests' own, for the copy to be made and destroyed. */
const SPARE_MS = 10 * 60_000

export async function compareRuns(
  bench: Workbench,
  pod: AgentPod,
  repo: Repository,
  runs: readonly Run[],
  plan: TestPlan | undefined,
): Promise<Compared[]> {
  if (plan) await removeForgotten(pod)
  const results = new Map<Run, Compared>()
  const waiting = [...runs]
  const work = async (): Promise<void> => {
    for (let run = waiting.shift(); run; run = waiting.shift())
      results.set(run, await compareOne(bench, pod, repo, run, plan))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return runs.flatMap((run) => results.get(run) ?? [])
}

/** Removes what a killed comparison left behind. */
async function removeForgotten(pod: AgentPod): Promise<void> {
  for (const { id, createdAt } of await pod.snapshots.list({ labels: COMPARING }))
    if (systemClock.now() - Date.parse(createdAt) > FORGOTTEN_MS)
      await pod.snapshots.remove(id).catch(() => undefined)
}

async function compareOne(
  bench: Workbench,
  pod: AgentPod,
  repo: Repository,
  run: Run,
  plan: TestPlan | undefined,
): Promise<Compared> {
  using open = await openResult(bench, repo, run)
  const { changes = [], gate = [] } = open?.received ?? {}
  const tests: Tests = plan ? await testIn(bench, pod, run, plan) : { state: 'none' }
  return { info: run.info, tests, changes, gated: gate.length }
}

/** Runs the tests in a copy of the run's sandbox and destroys the copy. A working run is not disturbed. */
async function testIn({ person }: Workbench, pod: AgentPod, { info }: Run, plan: TestPlan): Promise<Tests> {
  if (info.sandboxId === null || info.state !== 'ended' || plan.signal.aborted) return { state: 'unknown' }
  using progress = person.progress({})
  let copy: Sandbox | undefined
  try {
    progress.status(`testing ${labelOf(info)}`)
    copy = await copyOf(pod, info.sandboxId, plan)
    if (plan.begins) await copy.begin()
    return await tested(copy, info, plan)
  } catch (error) {
    if (!plan.signal.aborted)
      person.notice({
        kind: 'info',
        text: `the tests of ${labelOf(info)} could not be run: ${asAgentPodError(error).message}`,
      })
    return { state: 'unknown' }
  } finally {
    await copy?.destroy().catch(() => undefined)
  }
}

/**
 * SECURITY: an agent's code runs in the copy, so it gets the project's network, and not the key of the
 * agent's model.
 */
async function copyOf(
  pod: AgentPod,
  sandboxId: string,
  { network, timeoutMs, signal }: TestPlan,
): Promise<Sandbox> {
  const snapshot = await (await pod.get(sandboxId)).snapshot({ labels: COMPARING })
  try {
    return await pod.create({
      snapshot: snapshot.id,
      labels: COMPARING,
      network: { mode: 'allowlist', allow: [], deny: [], secrets: [], ...dropUndefined(network) },
      lifetime: { ttlMs: timeoutMs + SPARE_MS, idleMs: 0, whenOver: 'destroy' },
      signal,
    })
  } finally {
    await pod.snapshots.remove(snapshot.id).catch(() => undefined)
  }
}

async function tested(copy: Sandbox, { project }: RunInfo, plan: TestPlan): Promise<Tests> {
  const { script, timeoutMs, signal } = plan
  const child = copy.exec('/bin/sh', {
    args: ['-c', script, 'test'],
    cwd: project?.workspace,
    timeoutMs,
    signal,
  })
  const startedAt = performance.now()
  let tail = Buffer.alloc(0)
  try {
    for await (const { data } of child.output()) tail = Buffer.concat([tail, data]).subarray(-TAIL_BYTES)
  } catch (error) {
    if (isAgentPodError(error, 'deadline_exceeded')) return { state: 'timed out' }
    throw error
  }
  const { exitCode, signal: by } = child.exit
  if (exitCode === 0 && by === undefined) return { state: 'passed' }
  if (performance.now() - startedAt >= timeoutMs) return { state: 'timed out' }
  return { state: 'failed', exitCode, tail: tail.toString('utf8') }
}
