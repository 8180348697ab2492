import { appliedTree, recordApplied } from '../../sync/git/applied.ts'
import { type Applied, applyChanges } from '../../sync/git/apply.ts'
import type { GatedFile } from '../../sync/git/gate.ts'
import { gitText } from '../../sync/git/git.ts'
import { userGit } from '../../sync/git/quarantine.ts'
import type { Received } from '../../sync/git/receive.ts'
import type { ObjectId, Repository } from '../../sync/git/repository.ts'
import { compareTrees, type TreeChange } from '../../sync/git/tree-changes.ts'
import { editTree } from '../../sync/git/tree-edit.ts'
import { EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { gateChoice } from '../args/gate-choice.ts'
import { JSON_OPTION } from '../args/options.ts'
import { leftBehind } from '../bring-back.ts'
import type { Command, CommandContext } from '../command.ts'
import { labelOf } from '../output/run-log.ts'
import { gateLines } from '../output/run-result-lines.ts'
import { printable } from '../output/terminal.ts'
import { openTarget, resultTarget, runOf, targetName } from '../result-target.ts'
import { nothingIn } from '../run-result.ts'

export const command: Command = {
  usage: 'agentpod apply [RUN | BRANCH] [--with-executables | --without-executables] [--check]',
  examples: [
    'agentpod apply                    into your files, without a commit; all of it or nothing',
    'agentpod apply claude-2 --check   would it go?',
  ],
  options: {
    ...EXECUTABLES_OPTION,
    'without-executables': { help: 'leave those files out without a question' },
    check: { help: 'change nothing, and say what would be' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const target = await resultTarget(ctx, parsed.words[0])
    const { repo } = target
    using open = await openTarget(ctx, target)
    const name = targetName(target)
    const isJson = parsed.has('json')
    if (!open) {
      if (isJson) terminal.out(JSON.stringify({ run: name, written: [], removed: [], merged: [] }))
      else if (target.kind === 'run') terminal.say(nothingIn(target.run.info))
      return 0
    }
    const { from, tree, quarantine } = open.received
    const run = runOf(target)
    const before = run === undefined ? undefined : await appliedTree(repo, run)
    const gate = await newlyGated(open.received, before)
    // What is in a branch was said yes to when it was made.
    const leftOut =
      target.kind === 'branch'
        ? []
        : await leftBehind(ctx, labelOf(target.run.info), gate, { withGated: gateChoice(parsed), isJson })
    const without = leftOut.map(({ path }) => path)
    const isCheck = parsed.has('check')
    const applied = await applyChanges(repo, {
      from,
      to: tree,
      applied: before,
      without,
      isCheck,
      alsoObjects: open.objects,
    })
    if (run !== undefined && !isCheck) {
      const now = await treeWithout(open.received, before, without)
      await recordApplied(repo, quarantine, { run, tree: now, from: await headTree(repo) })
    }
    if (isJson)
      terminal.out(JSON.stringify({ run: name, ...applied, leftOut: leftOut.map(({ path }) => path) }))
    else {
      showApplied(ctx, applied, isCheck)
      if (leftOut.length > 0) {
        terminal.say(terminal.bold('left out, since they run later on this machine:'))
        for (const line of gateLines(terminal, leftOut)) terminal.say(line)
        terminal.say(terminal.dim(`  to take them too: agentpod apply ${name} --with-executables`))
      }
    }
    return 0
  },
}

/** Those that are other than what was applied before, which somebody said yes to. */
async function newlyGated(
  { gate, treeChanges, quarantine, from }: Received,
  before: ObjectId | undefined,
): Promise<readonly GatedFile[]> {
  if (before === undefined || gate.length === 0) return gate
  const known = new Map((await compareTrees(quarantine, from, before)).map((one) => [one.path, one.after]))
  const isKnown = ({ path, after }: TreeChange): boolean =>
    known.has(path) && known.get(path)?.id === after?.id && known.get(path)?.mode === after?.mode
  const taken = new Set(treeChanges.filter(isKnown).map(({ path }) => path))
  return gate.filter(({ path }) => !taken.has(path))
}

/** What is in the working tree of the result: all of it but what was left as it was. */
async function treeWithout(
  { quarantine, from, tree }: Received,
  before: ObjectId | undefined,
  without: readonly string[],
): Promise<ObjectId> {
  const kept = new Set(without)
  const changes = await compareTrees(quarantine, before ?? from, tree)
  const back = changes.filter(({ path }) => kept.has(path))
  return editTree(
    quarantine,
    tree,
    back.map(({ raw, before: leaf }) => ({ raw, leaf })),
  )
}

async function headTree(repo: Repository): Promise<ObjectId | undefined> {
  return repo.commit === undefined
    ? undefined
    : gitText(['rev-parse', '--verify', `${repo.commit}^{tree}`], userGit(repo))
}

const LISTED = 30

export function showApplied(
  { terminal }: CommandContext,
  { written, removed, merged, already }: Applied,
  isCheck: boolean,
): void {
  const would = isCheck ? 'would be ' : ''
  const lines = [
    ...written.map((path) => `${would}written  ${printable(path)}`),
    ...merged.map((path) => `${would}merged   ${printable(path)}`),
    ...removed.map((path) => `${would}removed  ${printable(path)}`),
  ]
  for (const line of lines.slice(0, LISTED)) terminal.out(line)
  if (lines.length > LISTED) terminal.out(`and ${lines.length - LISTED} more`)
  if (lines.length === 0)
    terminal.say(already.length > 0 ? 'everything is there already' : 'there is nothing to change')
}
