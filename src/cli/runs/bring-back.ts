/** Makes the branch of an ended run and shows what came back. */
import { agentNamed } from '../../agents/agents.ts'
import type { RunInfo } from '../../client/runs.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import {
  type BroughtBack,
  type EndedRun,
  makeRunBranch,
  type RunBranchOptions,
} from '../../workbench/result/run-branch.ts'
import { labelOf } from '../../workbench/run/run-label.ts'
import type { CommandContext } from '../command.ts'
import { changeLines, leftLines, nextLines, summaryLine } from '../output/run-result-lines.ts'

export interface ShowOptions extends RunBranchOptions {
  readonly isJson?: boolean | undefined
}

export async function bringBack(
  ctx: CommandContext,
  repo: Repository,
  run: EndedRun,
  { isJson, ...o }: ShowOptions,
): Promise<BroughtBack> {
  const back = await makeRunBranch(ctx, repo, run, o)
  if (isJson) ctx.terminal.out(JSON.stringify({ run: run.id, result: resultView(run.info, back) }))
  else showBroughtBack(ctx, run.info, back)
  return back
}

export function showBroughtBack({ terminal }: CommandContext, run: RunInfo, back: BroughtBack): void {
  const { say, bold, dim } = terminal
  const { branch, isOld, leftOut, received, unsigned } = back
  say('')
  say(`${bold(labelOf(run))} ${summaryLine(run, received?.changes ?? [], systemClock.now())}`)
  for (const line of changeLines(terminal, received?.changes ?? [])) say(line)
  for (const note of received?.notes ?? []) say(dim(`note: ${showHidden(note)}`))
  for (const line of leftLines(terminal, run, leftOut)) say(line)
  if (branch !== undefined) say(`branch ${bold(branch)}${isOld ? dim(' (it existed already)') : ''}`)
  else if (received) say('no branch: every changed file was left out')
  if (unsigned !== undefined) say(dim(`note: ${unsigned}`))
  for (const line of nextLines(terminal, run, branch)) say(line)
}

function resultView(run: RunInfo, { branch, isOld, leftOut, received, unsigned }: BroughtBack): object {
  return {
    agent: agentNamed(run.agent).name,
    outcome: run.outcome,
    reason: run.reason,
    branch: branch ?? null,
    isNew: branch !== undefined && !isOld,
    changes: received?.changes ?? [],
    gated: received?.gate ?? [],
    leftOut: leftOut.map(({ path }) => path),
    tooLarge: run.result?.tooLarge ?? [],
    unusable: run.result?.leftOut ?? [],
    submodules: run.result?.submodules ?? [],
    notes: [...(received?.notes ?? []), ...(unsigned === undefined ? [] : [unsigned])],
    usage: run.usage,
    denials: run.denials,
  }
}
