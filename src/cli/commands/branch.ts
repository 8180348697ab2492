import { invalid } from '../../core/error.ts'
import { branchNameProblem, prefixOf } from '../../sync/git/branch/branch-name.ts'
import { cleanBranches, cleanRunRefs, listBranches } from '../../sync/git/branch/clean-branches.ts'
import { openRepository, type Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { projectKey, scratchOf } from '../../workbench/project/project-state.ts'
import { runBranches } from '../../workbench/result/list-run-branches.ts'
import { branchTemplate } from '../../workbench/run/branch-template.ts'
import { noRepository, runFinder } from '../../workbench/run/find-run.ts'
import { BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { gateChoice } from '../args/gate-choice.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'
import { span } from '../output/units.ts'
import { bringBack } from '../runs/bring-back.ts'

export const command: Command = {
  usage: [
    'agentpod branch make [RUN] [--name NAME] [--with-executables]',
    'agentpod branch list',
    'agentpod branch clean [--merged | --all]',
  ].join('\n       '),
  examples: [
    'agentpod branch make claude --with-executables     include hooks, package scripts and the like',
    'agentpod branch make run4f2k --name try-this',
    'agentpod branch list',
    'agentpod branch clean                              remove merged branches',
    'agentpod branch clean --all                        remove unmerged branches too',
  ],
  options: {
    name: { value: 'NAME', help: 'make: the name of the branch' },
    ...BRANCH_OPTION,
    ...EXECUTABLES_OPTION,
    merged: { help: 'clean: only merged branches (default)' },
    all: { short: 'a', help: 'clean: unmerged branches too' },
    ...JSON_OPTION,
  },
  verbs: ['make', 'list', 'clean'],
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const [verb, ref] = parsed.words
    if (verb === 'make') return make(ctx, parsed, ref)
    if ((verb === 'list' || verb === 'ls') && ref === undefined) return list(ctx, parsed)
    if (verb === 'clean' && ref === undefined) return clean(ctx, parsed)
    throw invalid('words.unknown', `not a call: branch ${parsed.words.join(' ')}`, command.usage)
  },
}

async function make(ctx: CommandContext, parsed: Parsed, ref: string | undefined): Promise<number> {
  const { find, repo } = await runFinder(ctx)
  if (!repo) throw noRepository()
  const name = parsed.value('name')
  const why = name === undefined ? undefined : branchNameProblem(name)
  if (why !== undefined)
    throw invalid('option.name', `${JSON.stringify(name)} is not a valid branch name: ${why}`)
  await bringBack(ctx, repo, await find(ref), {
    template: branchTemplate(ctx.home, repo.root, parsed.value('branch')),
    name,
    withGated: gateChoice(parsed),
    isJson: parsed.has('json'),
    isAgain: true,
  })
  return 0
}

async function list(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const { terminal, home } = ctx
  const repo = await openRepository(ctx.cwd, ctx.env)
  using scratch = scratchOf(home, projectKey(repo))
  const branches = await listBranches(
    repo,
    prefixOf(branchTemplate(ctx.home, repo.root, parsed.value('branch'))),
    scratch.path,
  )
  if (parsed.has('json')) terminal.out(JSON.stringify(branches, null, 2))
  else if (branches.length === 0) terminal.say('no branches of agents')
  else
    for (const line of table([
      ['BRANCH', 'COMMIT', 'AGE', 'MERGED', 'SUBJECT'],
      ...branches.map(({ name, commit, at, isMerged, isCheckedOut, subject }) => [
        showHidden(name),
        commit.slice(0, 12),
        span(systemClock.now() - at),
        isCheckedOut ? 'checked out' : isMerged ? 'yes' : 'no',
        showHidden(subject),
      ]),
    ]))
      terminal.out(line)
  return 0
}

async function clean(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const { terminal, home } = ctx
  if (parsed.has('all') && parsed.has('merged'))
    throw invalid('option.all', '--all and --merged cannot be combined')
  const repo = await openRepository(ctx.cwd, ctx.env)
  using scratch = scratchOf(home, projectKey(repo))
  const prefix = prefixOf(branchTemplate(ctx.home, repo.root, parsed.value('branch')))
  const cleaned = await cleanBranches(repo, {
    prefix,
    isMergedOnly: !parsed.has('all'),
    scratch: scratch.path,
  })
  const refs = await cleanRunRefs(repo, await goneRuns(ctx, repo, prefix))
  if (parsed.has('json')) {
    terminal.out(JSON.stringify({ ...cleaned, refs }))
    return 0
  }
  for (const { name, commit } of cleaned.removed)
    terminal.out(
      `removed ${showHidden(name)} ${terminal.dim(`(git branch ${showHidden(name)} ${commit.slice(0, 12)} restores it)`)}`,
    )
  for (const { name, why } of cleaned.kept) terminal.say(`kept ${showHidden(name)}: ${why}`)
  if (refs > 0) terminal.say(`removed ${refs} ${refs === 1 ? 'ref' : 'refs'} of removed runs`)
  else if (cleaned.removed.length + cleaned.kept.length === 0) terminal.say('no branches of agents')
  return 0
}

/** A run is gone when the server has no record of it and no branch of it is left. */
async function goneRuns(
  { client }: CommandContext,
  repo: Repository,
  prefix: string,
): Promise<(run: string) => boolean> {
  const known = new Set((await (await client()).runs.list()).map(({ id }) => id))
  for (const { run } of await runBranches(repo, prefix)) known.add(run)
  return (run) => !known.has(run)
}
