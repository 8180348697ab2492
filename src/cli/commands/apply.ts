import { invalid } from '../../core/error.ts'
import { type Applied, applyChanges } from '../../sync/git/apply.ts'
import { EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { isGateOpen } from '../bring-back.ts'
import type { Command, CommandContext } from '../command.ts'
import { labelOf } from '../output/run-log.ts'
import { gateLines } from '../output/run-result-lines.ts'
import { printable } from '../output/terminal.ts'
import { openTarget, resultTarget, targetName } from '../result-target.ts'
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
    const { from, tree, gate } = open.received
    // What is in a command's branch was said yes to when it was made.
    const isOpen =
      target.kind === 'branch' ||
      (await isGateOpen(ctx, labelOf(target.run.info), open.received, {
        withGated: gateChoice(parsed),
        isJson,
      }))
    const leftOut = isOpen ? [] : gate
    const isCheck = parsed.has('check')
    const applied = await applyChanges(repo, {
      from,
      to: tree,
      without: leftOut.map(({ path }) => path),
      isCheck,
      alsoObjects: open.objects,
    })
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

function gateChoice(parsed: Parsed): 'ask' | boolean {
  const isWith = parsed.has('with-executables')
  const isWithout = parsed.has('without-executables')
  if (isWith && isWithout)
    throw invalid('option.executables', '--with-executables and --without-executables do not go together')
  return isWith ? true : isWithout ? false : 'ask'
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
