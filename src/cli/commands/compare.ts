import type { Run } from '../../client/runs.ts'
import { invalid } from '../../core/error.ts'
import { prefixOf } from '../../sync/git/branch/branch-name.ts'
import { cleanBranches, listBranches } from '../../sync/git/branch/clean-branches.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { projectKey, scratchOf } from '../../workbench/project/project-state.ts'
import { branchTemplate } from '../../workbench/run/branch-template.ts'
import { compareRuns, testPlan } from '../../workbench/run/compare-runs.ts'
import { noRepository, type RunFinder, runFinder } from '../../workbench/run/find-run.ts'
import { EXECUTABLES_OPTION, UNCOMMITTED_OPTION } from '../args/agent-options.ts'
import { ENVIRONMENT_OPTIONS, JSON_OPTION, sandboxRequest } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { showApplied } from '../output/applied.ts'
import { comparison, failures } from '../output/comparison.ts'
import { table } from '../output/terminal.ts'
import { mergeOptions, mergeShown } from '../runs/merge-shown.ts'

const TEST_MS = 15 * 60_000

export const command: Command = {
  usage: ['agentpod compare [RUN... | GROUP]', 'agentpod compare --pick RUN'].join('\n       '),
  examples: [
    'agentpod compare                  compare the last group of runs, and run the project’s tests in each',
    'agentpod compare claude-1 codex-1 --no-tests',
    'agentpod compare --pick codex-2   merge this one, and remove the branches of the others',
  ],
  options: {
    'no-tests': { help: 'do not run the tests' },
    time: { value: 'TIME', help: 'time limit for the tests of each run (default 15m)' },
    pick: { value: 'RUN', help: 'merge this run, and remove the branches of the others' },
    squash: { help: 'pick: make one commit instead of a merge' },
    ...EXECUTABLES_OPTION,
    ...UNCOMMITTED_OPTION,
    ...ENVIRONMENT_OPTIONS,
    ...JSON_OPTION,
  },
  words: { min: 0, max: 64 },
  async run(ctx, parsed) {
    const finder = await runFinder(ctx)
    const { repo } = finder
    if (!repo) throw noRepository()
    const pick = parsed.value('pick')
    if (pick !== undefined) return picked(ctx, parsed, finder, repo, pick)
    const runs = await compared(finder, parsed.words)
    const { terminal } = ctx
    const stop = new AbortController()
    const onInterrupt = (): void => stop.abort()
    process.on('SIGINT', onInterrupt)
    try {
      const plan = parsed.has('no-tests')
        ? undefined
        : await testPlan(ctx, repo, sandboxRequest(parsed), {
            timeoutMs: timeOf(parsed),
            signal: stop.signal,
          })
      const found = await compareRuns(ctx, finder.pod, repo, runs, plan)
      if (parsed.has('json')) terminal.out(JSON.stringify(found, null, 2))
      else {
        for (const line of table(comparison(found, systemClock.now()))) terminal.out(line)
        for (const line of failures(found)) terminal.say(terminal.dim(line))
        terminal.say('')
        terminal.say(terminal.dim('show one: agentpod diff RUN; merge one: agentpod compare --pick RUN'))
      }
      return stop.signal.aborted ? 130 : 0
    } finally {
      process.off('SIGINT', onInterrupt)
    }
  },
}

function timeOf(parsed: Parsed): number {
  const time = parsed.value('time')
  return time === undefined ? TEST_MS : parseDuration(time, 'time')
}

async function compared({ runs, find }: RunFinder, named: readonly string[]): Promise<readonly Run[]> {
  const group = named.length === 1 ? named[0] : runs.find(({ info }) => info.group !== null)?.info.group
  const together = runs.filter(({ info }) => info.group !== null && info.group === group).toReversed()
  if (together.length > 0 && named.length < 2) return together
  const chosen: Run[] = []
  for (const word of named) chosen.push(await find(word))
  return chosen.length > 0 ? chosen : [await find(undefined)]
}

async function picked(
  ctx: CommandContext,
  parsed: Parsed,
  finder: RunFinder,
  repo: Repository,
  pick: string,
): Promise<number> {
  if (parsed.words.length > 0)
    throw invalid('words.extra', '--pick takes one run and no other arguments', command.usage)
  const { terminal } = ctx
  const run = await finder.find(pick)
  const { merged, branch } = await mergeShown(ctx, finder, run, mergeOptions(parsed))
  const removed = await removeOthers(ctx, parsed, finder, repo, run)
  if (parsed.has('json')) terminal.out(JSON.stringify({ run: run.id, branch, ...merged, removed }))
  else {
    showApplied(terminal, merged, false)
    terminal.say(`merged ${terminal.bold(branch)}`)
    for (const { name, commit } of removed)
      terminal.say(`removed ${showHidden(name)} ${terminal.dim(`(it was ${commit.slice(0, 12)})`)}`)
  }
  return 0
}

/** Removes the branches of the runs that were started together with this one. */
async function removeOthers(
  ctx: CommandContext,
  parsed: Parsed,
  { runs, branches }: RunFinder,
  repo: Repository,
  { id, info }: Run,
): Promise<readonly { readonly name: string; readonly commit: string }[]> {
  const others = new Set(
    runs
      .filter((one) => info.group !== null && one.info.group === info.group && one.id !== id)
      .map((one) => one.id),
  )
  const names = new Set(branches.filter(({ run }) => others.has(run)).map(({ name }) => name))
  if (names.size === 0) return []
  using scratch = scratchOf(ctx.home, projectKey(repo))
  const prefix = prefixOf(branchTemplate(ctx.home, repo.root, parsed.value('branch')))
  const all = await listBranches(repo, prefix, scratch.path)
  const keep = all.map(({ name }) => name).filter((name) => !names.has(name))
  return (await cleanBranches(repo, { prefix, isMergedOnly: false, keep, scratch: scratch.path })).removed
}
