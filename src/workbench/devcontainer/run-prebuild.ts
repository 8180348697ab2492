/** Runs the lifecycle commands that prepare a copy of the project. */
import type { Sandbox } from '../../client/sandbox.ts'
import { FAILED_MARK } from '../../config/plan/devcontainer/lifecycle-script.ts'
import { AgentPodError } from '../../core/error.ts'
import { replaceHiddenInLines } from '../../util/hidden-characters.ts'
import type { Workbench } from '../workbench.ts'
import type { Prebuild } from './lifecycle-scripts.ts'

const TAIL_BYTES = 4000
const LONGEST_MS = 60 * 60_000

/** The first command that fails ends it, with an error that names the command and the end of its output. */
export async function runPrebuild(
  bench: Workbench,
  sandbox: Sandbox,
  o: { readonly prebuild: Prebuild; readonly user: string; readonly isNew: boolean },
): Promise<void> {
  const { create, update } = o.prebuild
  const script = [...(o.isNew ? [create] : []), update].filter((one) => one !== undefined).join('\n')
  if (script === '') return
  using progress = bench.person.progress({})
  progress.status('preparing the project: commands of devcontainer.json')
  const child = sandbox.exec('/bin/sh', {
    args: ['-c', script],
    user: o.user,
    cwd: '/',
    timeoutMs: LONGEST_MS,
  })
  let tail = Buffer.alloc(0)
  for await (const { data } of child.output()) tail = Buffer.concat([tail, data]).subarray(-TAIL_BYTES)
  if (child.exit.exitCode === 0) return
  throw lifecycleError(tail.toString('utf8'), child.exit.exitCode)
}

function lifecycleError(output: string, exitCode: number): AgentPodError {
  const lines = replaceHiddenInLines(output, '').trim().split('\n')
  const said = lines.findLast((line) => line.startsWith(FAILED_MARK))?.slice(FAILED_MARK.length)
  const rest = lines.filter((line) => !line.startsWith(FAILED_MARK)).join('\n')
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'devcontainer.command',
    message: `${said ?? `a command of devcontainer.json failed with exit code ${exitCode}`}${rest === '' ? '' : `:\n${rest}`}`,
    hint: '`agentpod shell --no-lifecycle` opens a shell in the same environment without running the commands',
  })
}
