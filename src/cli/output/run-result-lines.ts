/** The result of a run as lines. SECURITY: file names and agents' words are hostile text. */
import { agentNamed } from '../../agents/agents.ts'
import type { RunInfo } from '../../client/runs.ts'
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import type { ChangedFile } from '../../sync/git/plumbing/diff.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { oneLine, truncate } from '../../util/one-line.ts'
import { dollars, elapsed, type Style, tokens, words } from './run-lines.ts'
import { size } from './units.ts'

const LISTED = 30
const LONGEST_PATH = 60

export function summaryLine(run: RunInfo, changes: readonly ChangedFile[], now: number): string {
  const { outcome, reason, usage, denials } = run
  const what = `${words(outcome ?? run.state)}${reason === null ? '' : ` (${truncate(oneLine(reason), 200)})`}`
  return [
    what,
    ...(changes.length > 0 ? [changeText(changes)] : []),
    elapsed(run, now),
    ...(usage.source === 'none' ? [] : [`${tokens(usage.input + usage.cached + usage.output)}`]),
    ...(usage.costUsd === null ? [] : [dollars(usage.costUsd)]),
    ...(denials === 0 ? [] : [`${denials} ${denials === 1 ? 'denial' : 'denials'}`]),
  ].join(' · ')
}

export function changeText(changes: readonly ChangedFile[]): string {
  const { added, removed } = countsOf(changes)
  return `${changes.length} ${changes.length === 1 ? 'file' : 'files'} +${added} −${removed}`
}

export function countsOf(changes: readonly ChangedFile[]): {
  readonly added: number
  readonly removed: number
} {
  const sum = (of: (change: ChangedFile) => number | undefined): number =>
    changes.reduce((total, change) => total + (of(change) ?? 0), 0)
  return { added: sum(({ added }) => added), removed: sum(({ removed }) => removed) }
}

export function changeLines(style: Style, changes: readonly ChangedFile[]): string[] {
  const shown = changes.slice(0, LISTED)
  const paths = shown.map(({ path }) => truncate(showHidden(path), LONGEST_PATH))
  const width = Math.max(0, ...paths.map(({ length }) => length))
  const lines = shown.map(({ kind, added, removed }, index) => {
    const counts =
      added === undefined || removed === undefined
        ? style.dim('not text')
        : `${style.green(`+${added}`)} ${style.red(`−${removed}`)}`
    return `  ${kind.padEnd(12)} ${(paths[index] ?? '').padEnd(width)}  ${counts}`
  })
  const more = changes.length - shown.length
  return more > 0 ? [...lines, `  and ${more} more`] : lines
}

export function gateLines(style: Style, gate: readonly GatedFile[]): string[] {
  const lines = gate
    .slice(0, LISTED)
    .map(({ path, why }) => `  ${truncate(showHidden(path), LONGEST_PATH)} ${style.dim(showHidden(why))}`)
  return gate.length > LISTED ? [...lines, `  and ${gate.length - LISTED} more`] : lines
}

/** Files that are not in the branch, and the command that includes them. */
export function leftLines(style: Style, run: RunInfo, leftOut: readonly GatedFile[]): string[] {
  const { tooLarge = [], submodules = [], leftOut: unusable = [] } = run.result ?? {}
  return [
    ...(leftOut.length === 0
      ? []
      : [
          style.bold('left out, because they would run later on this machine:'),
          ...gateLines(style, leftOut),
          style.dim(`  to take them too: agentpod branch make ${run.id} --with-executables`),
        ]),
    ...(tooLarge.length === 0
      ? []
      : [
          style.bold('left out, because they are too large:'),
          ...tooLarge
            .slice(0, LISTED)
            .map(
              ({ path, sizeBytes }) =>
                `  ${truncate(showHidden(path), LONGEST_PATH)} ${style.dim(size(sizeBytes))}`,
            ),
        ]),
    ...pathLines(style, 'left out, because git cannot store them:', unusable),
    ...pathLines(style, 'left out, because they are submodules:', submodules),
  ]
}

function pathLines(style: Style, title: string, paths: readonly string[]): string[] {
  if (paths.length === 0) return []
  const more = paths.length > LISTED ? [`  and ${paths.length - LISTED} more`] : []
  const shown = paths.slice(0, LISTED).map((path) => `  ${truncate(showHidden(path), LONGEST_PATH)}`)
  return [style.bold(title), ...shown, ...more]
}

export function nextLines(style: Style, run: RunInfo, branch: string | undefined): string[] {
  const calls = [
    ...(branch === undefined
      ? []
      : [
          ['show the changes', `agentpod diff ${run.id}`],
          ['into your working tree', `agentpod apply ${run.id}`],
          ['into your branch', `agentpod merge ${run.id}`],
        ]),
    ...(run.keptUntil === null || !agentNamed(run.agent).canResume
      ? []
      : [['continue the run', `agentpod send ${run.id} "..."`]]),
  ]
  const width = Math.max(0, ...calls.map(([what = '']) => what.length))
  return calls.map(([what = '', call = '']) => style.dim(`  ${what.padEnd(width)}  ${call}`))
}

/** Why a run has no result. */
export function nothingIn({ id, state, outcome, reason }: RunInfo): string {
  if (state !== 'ended') return `${id} has not ended yet`
  const why = reason === null ? '' : `: ${oneLine(reason)}`
  return outcome === 'unchanged'
    ? `${id} changed nothing`
    : `${id} has no result: it ${ENDED[outcome ?? 'failed']}${why}`
}

const ENDED = {
  changed: 'left no result',
  unchanged: 'changed nothing',
  denied: 'was denied a permission',
  failed: 'failed',
  timed_out: 'ran out of time',
  over_budget: 'ran out of money',
  canceled: 'was canceled',
} as const
