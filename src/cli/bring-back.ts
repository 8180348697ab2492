/** From a run that has ended to a branch in the user's repository, and what a person wants to know of it. */
import { agentNamed } from '../agents/agents.ts'
import type { Run, RunEventInfo, RunInfo } from '../client/runs.ts'
import { isAgentPodError } from '../core/error.ts'
import { type Branch, makeBranch } from '../sync/git/branch.ts'
import { DEFAULT_BRANCH, freeBranchName, prefixOf, slugOf } from '../sync/git/branch-name.ts'
import type { GatedFile } from '../sync/git/gate.ts'
import type { Received } from '../sync/git/receive.ts'
import type { Repository } from '../sync/git/repository.ts'
import { systemClock } from '../util/clock.ts'
import type { CommandContext } from './command.ts'
import { commitMessage, lastMessage } from './commit-message.ts'
import { isYes } from './output/ask.ts'
import { labelOf } from './output/run-log.ts'
import { changeLines, gateLines, leftLines, nextLines, summaryLine } from './output/run-result-lines.ts'
import { printable } from './output/terminal.ts'
import { runBranches } from './run-branches.ts'
import { openResult } from './run-result.ts'

/** As much of a run as it takes. */
export type EndedRun = Pick<Run, 'id' | 'info' | 'events' | 'result'>

export interface BringBackOptions {
  /** How branches are called. */
  readonly template?: string | undefined
  /** A name of its own. */
  readonly name?: string | undefined
  /** Whether files that run later on this machine are part of it; `ask` leaves them out where nobody can be asked. */
  readonly withGated: 'ask' | boolean
  readonly isJson?: boolean | undefined
  /** Makes a branch also where there is one of the same result. */
  readonly isAgain?: boolean | undefined
}

export interface BroughtBack {
  /** The branch; undefined where nothing is left to make one of. */
  readonly branch: string | undefined
  /** Whether it was there before. */
  readonly isOld: boolean
  /** Files that run later on this machine and are not part of it. */
  readonly leftOut: readonly GatedFile[]
  readonly received: Pick<Received, 'changes' | 'gate' | 'notes'> | undefined
}

const NOTHING: BroughtBack = { branch: undefined, isOld: false, leftOut: [], received: undefined }
const MOST_TRIES = 5

/** Where the run changed nothing, only says so. */
export async function bringBack(
  ctx: CommandContext,
  repo: Repository,
  run: EndedRun,
  o: BringBackOptions,
): Promise<BroughtBack> {
  const back = await take(ctx, repo, run, o)
  if (o.isJson) ctx.terminal.out(JSON.stringify({ run: run.id, result: resultView(run.info, back) }))
  else show(ctx, run.info, back)
  return back
}

async function take(
  ctx: CommandContext,
  repo: Repository,
  run: EndedRun,
  o: BringBackOptions,
): Promise<BroughtBack> {
  const old = o.isAgain ? undefined : await madeBefore(repo, run.info, o.template ?? DEFAULT_BRANCH)
  if (old !== undefined) return { ...NOTHING, branch: old, isOld: true }
  using open = await openResult(ctx, repo, run)
  if (!open) return NOTHING
  const { received } = open
  const withGated = await isGateOpen(ctx, labelOf(run.info), received, o)
  const branch = await make(repo, run.info, received, {
    ...o,
    withGated,
    message: commitMessage(run.info, lastMessage(await allEvents(run))),
  })
  return { branch: branch?.name, isOld: false, leftOut: withGated ? [] : received.gate, received }
}

/** Found by what its commit says, whatever it is called by now. */
async function madeBefore(repo: Repository, run: RunInfo, template: string): Promise<string | undefined> {
  if (!run.result) return undefined
  const branches = await runBranches(repo, prefixOf(template))
  return branches.find((one) => one.run === run.id && one.result === run.result?.tree)?.name
}

/** SECURITY: GT-14. What runs later on this machine is part of a branch only where somebody says so. */
export async function isGateOpen(
  { terminal }: CommandContext,
  who: string,
  { gate }: Received,
  { withGated, isJson }: Pick<BringBackOptions, 'withGated' | 'isJson'>,
): Promise<boolean> {
  if (withGated !== 'ask' || gate.length === 0) return withGated === true
  if (!terminal.isInteractive || isJson) return false
  terminal.say('')
  terminal.say(terminal.bold(`${who} changed files that run later on this machine:`))
  for (const line of gateLines(terminal, gate)) terminal.say(line)
  return isYes(terminal, 'take them too?')
}

interface MakeOptions extends BringBackOptions {
  readonly withGated: boolean
  readonly message: string
}

async function make(
  repo: Repository,
  run: RunInfo,
  received: Received,
  o: MakeOptions,
): Promise<Branch | undefined> {
  const template = o.template ?? DEFAULT_BRANCH
  for (let tries = 1; ; tries++) {
    const { slug, agent, n } = { slug: slugOf(run.prompt), agent: run.agent, n: run.number }
    const name = o.name ?? (await freeBranchName(repo, template, { slug, agent, n })).name
    try {
      return await makeBranch(repo, received, {
        name,
        message: o.message,
        // It stands in the message, beside the other trailers: git knows them as one paragraph.
        coAuthor: undefined,
        startMessage: `Uncommitted files at the start of ${run.id}`,
        withGated: o.withGated,
        now: systemClock.now(),
      })
    } catch (error) {
      // Another run was faster with the same name.
      if (o.name !== undefined || tries >= MOST_TRIES || !isAgentPodError(error, 'already_exists'))
        throw error
    }
  }
}

const MOST_PAGES = 100

export async function allEvents(run: Pick<Run, 'events'>): Promise<RunEventInfo[]> {
  const events: RunEventInfo[] = []
  for (let page = 0; page < MOST_PAGES; page++) {
    const more = await run.events(events.at(-1)?.seq ?? 0)
    if (more.length === 0) break
    events.push(...more)
  }
  return events
}

function show({ terminal }: CommandContext, run: RunInfo, back: BroughtBack): void {
  const { say, bold, dim } = terminal
  const { branch, isOld, leftOut, received } = back
  say('')
  say(`${bold(labelOf(run))} ${summaryLine(run, received?.changes ?? [], systemClock.now())}`)
  for (const line of changeLines(terminal, received?.changes ?? [])) say(line)
  for (const note of received?.notes ?? []) say(dim(`note: ${printable(note)}`))
  for (const line of leftLines(terminal, run, leftOut)) say(line)
  if (branch !== undefined) say(`branch ${bold(branch)}${isOld ? dim(' (it was there already)') : ''}`)
  else if (received) say('there is no branch: everything that changed was left out')
  for (const line of nextLines(terminal, run, branch)) say(line)
}

function resultView(run: RunInfo, { branch, isOld, leftOut, received }: BroughtBack): object {
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
    notes: received?.notes ?? [],
    usage: run.usage,
    denials: run.denials,
  }
}
