/** Lifecycle commands of a devcontainer as scripts for /bin/sh inside the sandbox. */
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { LifecyclePlan, LifecycleRun, LifecycleStep } from '../../devcontainer/lifecycle.ts'
import type { ContainerStage, LifecycleStage } from '../../devcontainer/properties.ts'

export interface LifecycleScriptParts {
  readonly lifecycle: LifecyclePlan
  /** devcontainer.json, relative to the project: for messages. */
  readonly file: string
  readonly workspace: string
}

/**
 * Runs stages in order, in the workspace. The first command that fails ends the script with its exit code and
 * a line that names it. Undefined if no stage has a command.
 */
export function stagesScript(
  parts: LifecycleScriptParts,
  stages: readonly ContainerStage[],
): string | undefined {
  const pieces = stages.flatMap((stage) =>
    parts.lifecycle[stage].map((step) => stepScript(step, stage, parts.file)),
  )
  return pieces.length === 0 ? undefined : inWorkspace(parts, pieces)
}

/** The same for steps of one stage. */
export function stepsScript(
  parts: LifecycleScriptParts,
  stage: LifecycleStage,
  steps: readonly LifecycleStep[],
): string {
  return inWorkspace(
    parts,
    steps.map((step) => stepScript(step, stage, parts.file)),
  )
}

function inWorkspace({ workspace }: LifecycleScriptParts, pieces: readonly string[]): string {
  return `${HEAD}cd ${shellWord(workspace)} || exit 1\n${pieces.join('')}`
}

/** The beginning of the line that names a failed command. */
export const FAILED_MARK = 'agentpod: failed: '

const HEAD = `agentpod_fail() {
  printf '%s\\n' "${FAILED_MARK}$1, with exit code $2" >&2
  exit "$2"
}
`

function stepScript(step: LifecycleStep, stage: LifecycleStage, file: string): string {
  const origin = step.origin === 'devcontainer.json' ? file : `the Feature or image ${step.origin}`
  const what = (name: string | undefined): string =>
    shellWord(`${stage}${name === undefined ? '' : ` ${JSON.stringify(name)}`} of ${origin}`)
  const [only, ...others] = step.runs
  if (only && others.length === 0) return `${runText(only.run)} || agentpod_fail ${what(only.name)} "$?"\n`
  // All of them run to their end; then the first that failed decides.
  const starts = step.runs.map(({ run }, at) => `${runText(run)} &\nagentpod_${at}=$!\n`)
  const waits = step.runs.map(
    ({ name }, at) =>
      `wait "$agentpod_${at}" || { agentpod_code=$?; [ -n "$agentpod_what" ] || { agentpod_what=${what(name)}; agentpod_first=$agentpod_code; }; }\n`,
  )
  return `agentpod_what=\n${starts.join('')}${waits.join('')}[ -z "$agentpod_what" ] || agentpod_fail "$agentpod_what" "$agentpod_first"\n`
}

function runText(run: LifecycleRun): string {
  return 'shell' in run ? `/bin/sh -c ${shellWord(run.shell)}` : run.program.map(shellWord).join(' ')
}

/** Beside what sandboxes keep of their own in the home directory; a copy of the sandbox has it too. */
const CREATED = '"$HOME/.agentpod-created"'
const LOG = '"$HOME/.agentpod-lifecycle.log"'
/** Where the output of background stages is, for people. */
export const LIFECYCLE_LOG = '~/.agentpod-lifecycle.log'

/**
 * What runs at every start: postCreateCommand the first time, then postStartCommand. The stages in
 * `background` run in the background and write to a log.
 */
export function startScript(
  parts: LifecycleScriptParts,
  background: readonly ContainerStage[],
): string | undefined {
  const piece = (stage: 'postCreateCommand' | 'postStartCommand'): string | undefined => {
    const script = stagesScript(parts, [stage])
    if (script === undefined) return undefined
    const once = `[ -e ${CREATED} ] || (\n${script}) || exit "$?"\n`
    return stage === 'postCreateCommand' ? once : `(\n${script}) || exit "$?"\n`
  }
  const create = piece('postCreateCommand')
  const start = piece('postStartCommand')
  if (create === undefined && start === undefined) return undefined
  const created = create === undefined ? '' : `${create}: > ${CREATED}\n`
  if (create !== undefined && background.includes('postCreateCommand'))
    return behind(`${created}${start ?? ''}`)
  if (start !== undefined && background.includes('postStartCommand')) return `${created}${behind(start)}`
  return `${created}${start ?? ''}`
}

function behind(script: string): string {
  return `{\n${script}} </dev/null >${LOG} 2>&1 &\n`
}
