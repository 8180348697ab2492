/** Runs side by side: what each came to, and whether the project's own tests pass in it. */
import type { AgentPod } from '../client/client.ts'
import type { Run, RunInfo } from '../client/runs.ts'
import type { CreateOptions, Sandbox } from '../client/sandbox.ts'
import { asAgentPodError, isAgentPodError } from '../core/error.ts'
import type { FileChange } from '../sync/git/diff.ts'
import type { Repository } from '../sync/git/repository.ts'
import { systemClock } from '../util/clock.ts'
import { defined } from '../util/defined.ts'
import type { CommandContext } from './command.ts'
import { cut, dollars, elapsed, oneLine, words } from './output/run-lines.ts'
import { labelOf } from './output/run-log.ts'
import { countsOf } from './output/run-result-lines.ts'
import { openResult } from './run-result.ts'

/** `none`: the project has no tests that we know of. `unknown`: they could not be run. */
export type Tests =
  | { readonly state: 'passed' | 'timed out' | 'none' | 'unknown' }
  | { readonly state: 'failed'; readonly exitCode: number; readonly tail: string }

export interface Compared {
  readonly info: RunInfo
  readonly tests: Tests
  readonly changes: readonly FileChange[]
  /** How many of them run later on this machine. */
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

const AT_ONCE = 2
/** No copy takes so long to be made. */
const FORGOTTEN_MS = 3_600_000
const COMPARING = { 'agentpod/compare': 'tests' }
const TAIL_BYTES = 2000
/** Beyond the tests' own time: to be made, and to be destroyed. */
const SPARE_MS = 10 * 60_000

export async function compareRuns(
  ctx: CommandContext,
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
      results.set(run, await compareOne(ctx, pod, repo, run, plan))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return runs.flatMap((run) => results.get(run) ?? [])
}

/** What a comparison that was killed left behind. */
async function removeForgotten(pod: AgentPod): Promise<void> {
  for (const { id, createdAt } of await pod.snapshots.list({ labels: COMPARING }))
    if (systemClock.now() - Date.parse(createdAt) > FORGOTTEN_MS)
      await pod.snapshots.remove(id).catch(() => undefined)
}

async function compareOne(
  ctx: CommandContext,
  pod: AgentPod,
  repo: Repository,
  run: Run,
  plan: TestPlan | undefined,
): Promise<Compared> {
  using open = await openResult(ctx, repo, run)
  const { changes = [], gate = [] } = open?.received ?? {}
  const tests: Tests = plan ? await testIn(ctx, pod, run, plan) : { state: 'none' }
  return { info: run.info, tests, changes, gated: gate.length }
}

/** In a copy of its sandbox, which is gone afterwards whatever happens. A run that is at work is not disturbed. */
async function testIn(
  { terminal }: CommandContext,
  pod: AgentPod,
  { info }: Run,
  plan: TestPlan,
): Promise<Tests> {
  if (info.sandboxId === null || info.state !== 'ended' || plan.signal.aborted) return { state: 'unknown' }
  let copy: Sandbox | undefined
  try {
    terminal.progress(`testing ${labelOf(info)}`)
    copy = await copyOf(pod, info.sandboxId, plan)
    if (plan.begins) await copy.begin()
    return await tested(copy, info, plan)
  } catch (error) {
    if (!plan.signal.aborted)
      terminal.say(`the tests of ${labelOf(info)} could not be run: ${asAgentPodError(error).message}`)
    return { state: 'unknown' }
  } finally {
    await copy?.destroy().catch(() => undefined)
    terminal.clearProgress()
  }
}

/** SECURITY: what an agent wrote runs there, so it has what the project has, and not the key of the agent's model. */
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
      network: { mode: 'allowlist', allow: [], deny: [], secrets: [], ...defined(network) },
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

export function testsText(tests: Tests): string {
  return tests.state === 'failed'
    ? `failed (${tests.exitCode})`
    : tests.state === 'unknown'
      ? '-'
      : tests.state
}

/** For a table. */
export function comparison(compared: readonly Compared[], now: number): string[][] {
  return [
    ['RUN', 'AGENT', 'OUTCOME', 'TESTS', 'FILES', 'LINES', 'TIME', 'TOKENS', 'COST', 'DENIALS'],
    ...compared.map(({ info, tests, changes }) => {
      const { added, removed } = countsOf(changes)
      const { usage } = info
      const total = usage.input + usage.cached + usage.output
      return [
        info.id,
        labelOf(info),
        words(info.outcome ?? info.state),
        testsText(tests),
        String(changes.length),
        `+${added} −${removed}`,
        elapsed(info, now),
        usage.source === 'none' ? '-' : total.toLocaleString('en'),
        usage.costUsd === null || usage.source === 'none' ? '-' : dollars(usage.costUsd),
        String(info.denials),
      ]
    }),
  ]
}

const SHOWN = 5

/** The last words of tests that failed. */
export function failures(compared: readonly Compared[]): string[] {
  return compared.flatMap(({ info, tests }) => {
    if (tests.state !== 'failed') return []
    const lines = tests.tail.split('\n').filter((line) => line.trim() !== '')
    return lines.slice(-SHOWN).map((line) => `${labelOf(info)} │ ${cut(oneLine(line), 200)}`)
  })
}
