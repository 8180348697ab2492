import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isAgentPodError } from '../../core/error.ts'
import { changesOf, diffOf } from '../../sync/git/plumbing/diff.ts'
import {
  openTarget,
  type ResultTarget,
  resultTarget,
  targetName,
} from '../../workbench/result/result-target.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { gateLines, nothingIn } from '../output/run-result-lines.ts'

export const command: Command = {
  usage: 'agentpod diff [RUN | BRANCH] [--stat] [PATH...]',
  examples: [
    'agentpod diff                     what the last run changed',
    'agentpod diff claude-2 --stat',
    'agentpod diff run4f2k src/parser.ts',
  ],
  options: {
    stat: { help: 'the changed files and line counts only' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 10_000 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const { target, paths } = await named(ctx, parsed.words)
    using open = await openTarget(ctx, target)
    const name = targetName(target)
    if (!open) {
      if (parsed.has('json')) terminal.out(JSON.stringify({ run: name, changes: [], gated: [], diff: '' }))
      else if (target.kind === 'run') terminal.say(nothingIn(target.run.info))
      return 0
    }
    const { quarantine, from, tree, gate, treeChanges } = open.received
    const isJson = parsed.has('json')
    const color = !isJson && terminal.stdout.isTTY === true && terminal.bold('') !== ''
    const diff = await diffOf(quarantine, from, tree, { stat: parsed.has('stat'), color, paths })
    if (isJson) {
      const changes = await changesOf(quarantine, from, tree, treeChanges)
      terminal.out(JSON.stringify({ run: name, changes, gated: gate, diff }))
      return 0
    }
    terminal.stdout.write(diff)
    if (gate.length > 0 && paths.length === 0 && target.kind === 'run') {
      terminal.say(terminal.bold('would run later on this machine; not in the branch unless you take them:'))
      for (const line of gateLines(terminal, gate)) terminal.say(line)
    }
    return 0
  },
}

/** The first word is a run or a branch if one has that name, otherwise a path. */
async function named(
  ctx: CommandContext,
  words: readonly string[],
): Promise<{ readonly target: ResultTarget; readonly paths: readonly string[] }> {
  const [first, ...rest] = words
  if (first === undefined) return { target: await resultTarget(ctx, undefined), paths: [] }
  try {
    return { target: await resultTarget(ctx, first), paths: rest }
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
    const target = await resultTarget(ctx, undefined)
    // A word that is neither a run nor a file is most likely a misspelt run.
    if (!(await isPath(ctx, target, first))) throw error
    return { target, paths: words }
  }
}

/** Whether such a file exists here or in the result, or the word is a pattern. */
async function isPath(ctx: CommandContext, target: ResultTarget, word: string): Promise<boolean> {
  if (/[*?[]/.test(word) || existsSync(join(target.repo.root, word))) return true
  using open = await openTarget(ctx, target)
  const path = word.replace(/\/+$/, '')
  return (
    open?.received.treeChanges.some((one) => one.path === path || one.path.startsWith(`${path}/`)) ?? false
  )
}
