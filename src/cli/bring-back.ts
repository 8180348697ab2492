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
import type { GateChoice } from './args/gate-choice.ts'
import type { CommandContext } from './command.ts'
import { commitMessage } from './commit-message.ts'
import { startSubject } from './named-branch.ts'
import { choice, isYes } from './output/ask.ts'
import { labelOf } from './output/run-log.ts'
import { changeLines, gateLines, leftLines, nextLines, summaryLine } from './output/run-result-lines.ts'
import { printable } from './output/terminal.ts'
import { newestOf, runBranches } from './run-branches.ts'
import { openResult } from './run-result.ts'
import { turnBase } from './run-update.ts'
import { unsignedNote } from './unsigned.ts'

/** As much of a run as it takes. */
export type EndedRun = Pick<Run, 'id' | 'info' | 'events' | 'result'>

export interface BringBackOptions {
  /** How branches are called. */
  readonly template?: string | undefined
  /** A name of its own. */
  readonly name?: string | undefined
  /** Whether files that run later on this machine are part of it. */
  readonly withGated: GateChoice
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
  const isMade = back.branch !== undefined && !back.isOld
  const unsigned = isMade ? await unsignedNote(repo, signCommand(back.branch)) : undefined
  if (o.isJson)
    ctx.terminal.out(JSON.stringify({ run: run.id, result: resultView(run.info, back, unsigned) }))
  else show(ctx, run.info, back, unsigned)
  return back
}

async function take(
  ctx: CommandContext,
  repo: Repository,
  run: EndedRun,
  o: BringBackOptions,
): Promise<BroughtBack> {
  const branches = await runBranches(repo, prefixOf(o.template ?? DEFAULT_BRANCH))
  const tree = run.info.result?.tree
  const newest = newestOf(branches, run.id, tree)
  // Found by what its commit says, whatever it is called by now.
  if (!o.isAgain && newest && newest.result === tree) return { ...NOTHING, branch: newest.name, isOld: true }
  const earlier = newestOf(
    branches.filter(({ result }) => result !== tree),
    run.id,
  )
  using open = await openResult(ctx, repo, run, await turnBase(repo, run.id, earlier?.commit))
  if (!open) return NOTHING
  const { received } = open
  const leftOut = await leftBehind(ctx, labelOf(run.info), received.gate, o)
  const branch = await make(repo, run.info, received, {
    ...o,
    leftOut,
    message: commitMessage(run.info, await allEvents(run)),
  })
  return { branch: branch?.name, isOld: false, leftOut, received }
}

/**
 * SECURITY: GT-14. What runs later on this machine is part of a branch only where somebody says so, of all files or of those that they name.
 * Answers those that are not.
 */
export async function leftBehind(
  { terminal }: Pick<CommandContext, 'terminal'>,
  who: string,
  gate: readonly GatedFile[],
  { withGated, isJson }: Pick<BringBackOptions, 'withGated' | 'isJson'>,
): Promise<readonly GatedFile[]> {
  if (gate.length === 0 || withGated === true) return []
  if (typeof withGated === 'object') return gate.filter(({ path }) => !fits(withGated, path))
  if (withGated === false || !terminal.isInteractive || isJson) return gate
  terminal.say('')
  terminal.say(terminal.bold(`${who} changed files that run later on this machine:`))
  for (const line of gateLines(terminal, gate)) terminal.say(line)
  const answer = await choice(terminal, 'take them too? [y]es, [N]o, [e]ach: ', ['y', 'n', 'e'])
  if (answer !== 'e') return answer === 'y' ? [] : gate
  const left: GatedFile[] = []
  for (const file of gate) if (!(await isYes(terminal, `take ${printable(file.path)}?`))) left.push(file)
  return left
}

/** A path, or a directory with everything below. */
function fits(wanted: readonly string[], path: string): boolean {
  return wanted.some((one) => path === one || path.startsWith(`${one.replace(/\/+$/, '')}/`))
}

interface MakeOptions extends BringBackOptions {
  readonly leftOut: readonly GatedFile[]
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
    const words = { slug: slugOf(run.prompt), agent: run.agent, n: run.number, turn: run.turn }
    const name = o.name ?? (await freeBranchName(repo, template, words, 'version'))
    try {
      return await makeBranch(repo, received, {
        name,
        message: o.message,
        // It stands in the message, beside the other trailers: git knows them as one paragraph.
        coAuthor: undefined,
        startMessage: startSubject(run.id),
        leftOut: o.leftOut.map(({ path }) => path),
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

function signCommand(branch: string): string {
  return `git switch ${branch} && git commit --amend --no-edit -S`
}

function show(
  { terminal }: CommandContext,
  run: RunInfo,
  back: BroughtBack,
  unsigned: string | undefined,
): void {
  const { say, bold, dim } = terminal
  const { branch, isOld, leftOut, received } = back
  say('')
  say(`${bold(labelOf(run))} ${summaryLine(run, received?.changes ?? [], systemClock.now())}`)
  for (const line of changeLines(terminal, received?.changes ?? [])) say(line)
  for (const note of received?.notes ?? []) say(dim(`note: ${printable(note)}`))
  for (const line of leftLines(terminal, run, leftOut)) say(line)
  if (branch !== undefined) say(`branch ${bold(branch)}${isOld ? dim(' (it was there already)') : ''}`)
  else if (received) say('there is no branch: everything that changed was left out')
  if (unsigned !== undefined) say(dim(`note: ${unsigned}`))
  for (const line of nextLines(terminal, run, branch)) say(line)
}

function resultView(
  run: RunInfo,
  { branch, isOld, leftOut, received }: BroughtBack,
  unsigned: string | undefined,
): object {
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
