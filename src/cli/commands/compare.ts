import type { Run } from '../../client/runs.ts'
import { invalid } from '../../core/error.ts'
import { prefixOf } from '../../sync/git/branch-name.ts'
import { cleanBranches, listBranches } from '../../sync/git/clean.ts'
import type { Repository } from '../../sync/git/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { branchTemplate } from '../agent-settings.ts'
import { EXECUTABLES_OPTION, UNCOMMITTED_OPTION } from '../args/agent-options.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { compareRuns, comparison, failures, type TestPlan } from '../compare-runs.ts'
import { ENVIRONMENT_OPTIONS, environmentIn } from '../environment.ts'
import { mergeRun } from '../merge-run.ts'
import { networkOf } from '../network.ts'
import { printable, table } from '../output/terminal.ts'
import { openProject } from '../project.ts'
import { projectKey, scratchOf } from '../project-objects.ts'
import { noRepository, type RunFinder, runFinder } from '../run-ref.ts'
import { showApplied } from './apply.ts'
import { inDirectory } from './test.ts'

const TEST_MS = 15 * 60_000

export const command: Command = {
  usage: ['agentpod compare [RUN... | GROUP]', 'agentpod compare --pick RUN'].join('\n       '),
  examples: [
    'agentpod compare                  the runs that were started together last, with the project’s tests in each',
    'agentpod compare claude-1 codex-1 --no-tests',
    'agentpod compare --pick codex-2   merge that one, and remove the branches of the others',
  ],
  options: {
    'no-tests': { help: 'run no tests' },
    time: { value: 'TIME', help: 'how long the tests of each may take (default 15m)' },
    pick: { value: 'RUN', help: 'merge this one, and remove the branches of those it was compared with' },
    squash: { help: 'pick: one commit of yours, instead of a merge' },
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
      const plan = parsed.has('no-tests') ? undefined : await testPlan(ctx, parsed, repo, stop.signal)
      const found = await compareRuns(ctx, finder.pod, repo, runs, plan)
      if (parsed.has('json')) terminal.out(JSON.stringify(found, null, 2))
      else {
        for (const line of table(comparison(found, systemClock.now()))) terminal.out(line)
        for (const line of failures(found)) terminal.say(terminal.dim(line))
        terminal.say('')
        terminal.say(terminal.dim('look at one: agentpod diff RUN; take one: agentpod compare --pick RUN'))
      }
      return stop.signal.aborted ? 130 : 0
    } finally {
      process.off('SIGINT', onInterrupt)
    }
  },
}

async function compared({ runs, find }: RunFinder, named: readonly string[]): Promise<readonly Run[]> {
  const group = named.length === 1 ? named[0] : runs.find(({ info }) => info.group !== null)?.info.group
  const together = runs.filter(({ info }) => info.group !== null && info.group === group).toReversed()
  if (together.length > 0 && named.length < 2) return together
  const chosen: Run[] = []
  for (const word of named) chosen.push(await find(word))
  return chosen.length > 0 ? chosen : [await find(undefined)]
}

/** Undefined where nobody knows what the tests are. */
async function testPlan(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  signal: AbortSignal,
): Promise<TestPlan | undefined> {
  const inRoot = { ...ctx, cwd: repo.root }
  const ready = await environmentIn(inRoot, parsed, await openProject(inRoot, 'user'))
  const commands = ready?.commands.test ?? []
  if (!ready || commands.length === 0) return undefined
  const time = parsed.value('time')
  return {
    script: `set -e\n${commands.map(({ directory, run }) => inDirectory(directory, run)).join('\n')}`,
    begins: ready.begins,
    network: (await networkOf(inRoot, parsed, repo.root, ready.wish))?.network,
    timeoutMs: time === undefined ? TEST_MS : parseDuration(time, 'time'),
    signal,
  }
}

async function picked(
  ctx: CommandContext,
  parsed: Parsed,
  finder: RunFinder,
  repo: Repository,
  pick: string,
): Promise<number> {
  if (parsed.words.length > 0) throw invalid('words.extra', 'only one can be picked', command.usage)
  const { terminal } = ctx
  const run = await finder.find(pick)
  const { merged, branch } = await mergeRun(ctx, parsed, finder, run)
  const removed = await removeOthers(ctx, parsed, finder, repo, run)
  if (parsed.has('json')) terminal.out(JSON.stringify({ run: run.id, branch, ...merged, removed }))
  else {
    showApplied(ctx, merged, false)
    terminal.say(`merged ${terminal.bold(branch)}`)
    for (const { name, commit } of removed)
      terminal.say(`removed ${printable(name)} ${terminal.dim(`(it was ${commit.slice(0, 12)})`)}`)
  }
  return 0
}

/** Branches of the runs that were started with this one; its own stays. */
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
  const prefix = prefixOf(branchTemplate(ctx, parsed, repo.root))
  const all = await listBranches(repo, prefix, scratch.path)
  const keep = all.map(({ name }) => name).filter((name) => !names.has(name))
  return (await cleanBranches(repo, { prefix, isMergedOnly: false, keep, scratch: scratch.path })).removed
}
