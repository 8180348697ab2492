import type { Run, RunInfo } from '../../client/runs.ts'
import { invalid } from '../../core/error.ts'
import { systemClock } from '../../util/clock.ts'
import { oneLine, truncate } from '../../util/one-line.ts'
import type { RunBranch } from '../../workbench/result/list-run-branches.ts'
import { allEvents } from '../../workbench/result/run-branch.ts'
import { runFinder } from '../../workbench/run/find-run.ts'
import { labelOf } from '../../workbench/run/run-label.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { dollars, elapsed, usageText, words } from '../output/run-lines.ts'
import { RunLog } from '../output/run-log.ts'
import { table } from '../output/terminal.ts'
import { span } from '../output/units.ts'

export const command: Command = {
  usage: ['agentpod runs [--all]', 'agentpod runs show [RUN]', 'agentpod runs rm RUN...'].join('\n       '),
  examples: [
    'agentpod runs                     runs of this repository, newest first',
    'agentpod runs --all --json',
    'agentpod runs show claude-2       the prompt, the events and the cost of a run',
    'agentpod runs rm run4f2k          remove a run and its sandbox; its branch stays',
  ],
  options: {
    all: { short: 'a', help: 'runs of every repository' },
    ...JSON_OPTION,
  },
  verbs: ['ls', 'show', 'rm'],
  words: { min: 0, max: 1000 },
  async run(ctx, parsed) {
    const [verb = 'ls', ...refs] = parsed.words
    if (verb === 'ls' && refs.length === 0) return list(ctx, parsed)
    if (verb === 'show' && refs.length < 2) return show(ctx, parsed, refs[0])
    if (verb === 'rm' && refs.length > 0) return remove(ctx, parsed, refs)
    throw invalid('words.unknown', `not a call: runs ${parsed.words.join(' ')}`, command.usage)
  },
}

async function list(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const { terminal } = ctx
  const finder = await runFinder(ctx)
  const runs = parsed.has('all') ? await finder.pod.runs.list() : finder.runs
  const infos = runs.map(({ info }) => ({ ...info, branch: branchOf(info, finder.branches) ?? null }))
  if (parsed.has('json')) terminal.out(JSON.stringify(infos, null, 2))
  else if (infos.length === 0)
    terminal.say('no runs yet; start one with `agentpod run claude "fix the failing test"`')
  else
    for (const line of table([
      ['ID', 'AGENT', 'STATE', 'AGE', 'TIME', 'COST', 'BRANCH', 'PROMPT'],
      ...infos.map((info) => row(info, info.branch)),
    ]))
      terminal.out(line)
  return 0
}

/** The branch of its present result; follow-ups may have left others. */
function branchOf(info: RunInfo, branches: readonly RunBranch[]): string | undefined {
  return branches.find(({ run, result }) => run === info.id && result === info.result?.tree)?.name
}

const PROMPT_WIDTH = 50

function row(info: RunInfo, branch: string | null): string[] {
  const now = systemClock.now()
  const { usage } = info
  return [
    info.id,
    labelOf(info),
    words(info.outcome ?? info.state),
    span(now - Date.parse(info.createdAt)),
    elapsed(info, now),
    usage.costUsd === null || usage.source === 'none' ? '-' : dollars(usage.costUsd),
    branch ?? '-',
    truncate(oneLine(info.prompt), PROMPT_WIDTH),
  ]
}

async function show(ctx: CommandContext, parsed: Parsed, ref: string | undefined): Promise<number> {
  const { terminal } = ctx
  const finder = await runFinder(ctx)
  const run = await (await finder.find(ref)).refresh()
  const events = await allEvents(run)
  const branch = branchOf(run.info, finder.branches)
  if (parsed.has('json')) {
    terminal.out(JSON.stringify({ ...run.info, branch: branch ?? null, events }))
    return 0
  }
  for (const line of table(details(run, branch))) terminal.out(line)
  terminal.out('')
  const log = new RunLog(terminal, [run.info])
  for (const event of events) log.take(run.id, event)
  log.end(run.id)
  return 0
}

function details({ info }: Run, branch: string | undefined): string[][] {
  const now = systemClock.now()
  const left = info.keptUntil === null ? undefined : Date.parse(info.keptUntil) - now
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['run', info.id],
    ['agent', `${labelOf(info)}${info.model === null ? '' : ` (${oneLine(info.model)})`}`],
    ['group', info.group ?? undefined],
    [
      'state',
      `${words(info.outcome ?? info.state)}${info.reason === null ? '' : `: ${oneLine(info.reason)}`}`,
    ],
    ['turns', info.turn > 1 ? String(info.turn) : undefined],
    ['time', elapsed(info, now)],
    ['models', usageText(info.usage)],
    ['denials', info.denials > 0 ? String(info.denials) : undefined],
    ['branch', branch],
    ['sandbox', info.sandboxId ?? undefined],
    ['kept for', left === undefined || left <= 0 ? undefined : span(left)],
    ['prompt', oneLine(info.prompt)],
  ]
  return rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, truncate(value, 1000)]]))
}

async function remove(ctx: CommandContext, parsed: Parsed, refs: readonly string[]): Promise<number> {
  const finder = await runFinder(ctx)
  // All names are resolved before the first run is removed.
  const runs: Run[] = []
  for (const ref of refs) runs.push(await finder.find(ref))
  for (const run of runs) {
    await run.remove()
    if (!parsed.has('json')) ctx.terminal.out(`removed ${run.id}`)
  }
  if (parsed.has('json')) ctx.terminal.out(JSON.stringify(runs.map(({ id }) => id)))
  return 0
}
