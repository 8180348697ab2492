/** What came of a run, as lines for a person. SECURITY: names of files and words of agents are hostile text. */
import { agentNamed } from '../../agents/agents.ts'
import type { RunInfo } from '../../client/runs.ts'
import type { FileChange } from '../../sync/git/diff.ts'
import type { GatedFile } from '../../sync/git/gate.ts'
import { cut, dollars, elapsed, oneLine, type Style, tokens, words } from './run-lines.ts'
import { printable } from './terminal.ts'
import { size } from './units.ts'

const LISTED = 30
const LONGEST_PATH = 60

export function summaryLine(run: RunInfo, changes: readonly FileChange[], now: number): string {
  const { outcome, reason, usage, denials } = run
  const what = `${words(outcome ?? run.state)}${reason === null ? '' : ` (${cut(oneLine(reason), 200)})`}`
  return [
    what,
    ...(changes.length > 0 ? [changeText(changes)] : []),
    elapsed(run, now),
    ...(usage.source === 'none' ? [] : [`${tokens(usage.input + usage.cached + usage.output)}`]),
    ...(usage.costUsd === null ? [] : [dollars(usage.costUsd)]),
    ...(denials === 0 ? [] : [`${denials} ${denials === 1 ? 'denial' : 'denials'}`]),
  ].join(' · ')
}

export function changeText(changes: readonly FileChange[]): string {
  const { added, removed } = countsOf(changes)
  return `${changes.length} ${changes.length === 1 ? 'file' : 'files'} +${added} −${removed}`
}

export function countsOf(changes: readonly FileChange[]): {
  readonly added: number
  readonly removed: number
} {
  const sum = (of: (change: FileChange) => number | undefined): number =>
    changes.reduce((total, change) => total + (of(change) ?? 0), 0)
  return { added: sum(({ added }) => added), removed: sum(({ removed }) => removed) }
}

export function changeLines(style: Style, changes: readonly FileChange[]): string[] {
  const shown = changes.slice(0, LISTED)
  const paths = shown.map(({ path }) => cut(printable(path), LONGEST_PATH))
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
    .map(({ path, why }) => `  ${cut(printable(path), LONGEST_PATH)} ${style.dim(printable(why))}`)
  return gate.length > LISTED ? [...lines, `  and ${gate.length - LISTED} more`] : lines
}

/** What is not in the branch, and how to have it. */
export function leftLines(style: Style, run: RunInfo, leftOut: readonly GatedFile[]): string[] {
  const { tooLarge = [], submodules = [], leftOut: unusable = [] } = run.result ?? {}
  return [
    ...(leftOut.length === 0
      ? []
      : [
          style.bold('left out, since they run later on this machine:'),
          ...gateLines(style, leftOut),
          style.dim(`  to take them too: agentpod branch make ${run.id} --with-executables`),
        ]),
    ...(tooLarge.length === 0
      ? []
      : [
          style.bold('left out, since they are too large:'),
          ...tooLarge
            .slice(0, LISTED)
            .map(
              ({ path, sizeBytes }) =>
                `  ${cut(printable(path), LONGEST_PATH)} ${style.dim(size(sizeBytes))}`,
            ),
        ]),
    ...pathLines(style, 'left out, since git could not take them:', unusable),
    ...pathLines(style, 'left out, since they are submodules:', submodules),
  ]
}

function pathLines(style: Style, title: string, paths: readonly string[]): string[] {
  if (paths.length === 0) return []
  const more = paths.length > LISTED ? [`  and ${paths.length - LISTED} more`] : []
  const shown = paths.slice(0, LISTED).map((path) => `  ${cut(printable(path), LONGEST_PATH)}`)
  return [style.bold(title), ...shown, ...more]
}

export function nextLines(style: Style, run: RunInfo, branch: string | undefined): string[] {
  const calls = [
    ...(branch === undefined
      ? []
      : [
          ['look at it', `agentpod diff ${run.id}`],
          ['into your working tree', `agentpod apply ${run.id}`],
          ['into your branch', `agentpod merge ${run.id}`],
        ]),
    ...(run.keptUntil === null || !agentNamed(run.agent).canResume
      ? []
      : [['go on', `agentpod send ${run.id} "..."`]]),
  ]
  const width = Math.max(0, ...calls.map(([what = '']) => what.length))
  return calls.map(([what = '', call = '']) => style.dim(`  ${what.padEnd(width)}  ${call}`))
}
