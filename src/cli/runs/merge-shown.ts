/** Merges a run, and shows what came back if its branch had to be made first. */
import type { Run } from '../../client/runs.ts'
import { type MergedRun, type MergeRunOptions, mergeRun } from '../../workbench/result/merge-run.ts'
import type { RunFinder } from '../../workbench/run/find-run.ts'
import { gateChoice } from '../args/gate-choice.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { showBroughtBack } from './bring-back.ts'

export function mergeOptions(parsed: Parsed): MergeRunOptions {
  return {
    isSquash: parsed.has('squash'),
    withGated: gateChoice(parsed),
    withUncommitted: parsed.has('with-uncommitted'),
    template: parsed.value('branch'),
  }
}

export async function mergeShown(
  ctx: CommandContext,
  finder: RunFinder,
  run: Run,
  o: MergeRunOptions,
): Promise<MergedRun> {
  const result = await mergeRun(ctx, finder, run, o)
  if (result.made) showBroughtBack(ctx, run.info, result.made)
  return result
}
