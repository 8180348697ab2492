/**
 * Two-way sync: one project on this machine and in a sandbox, brought together path by path. What both sides last agreed on is remembered;
 * what differs from it was changed. Each change is made only if its place is still as it was looked at, so what somebody writes in the
 * meantime is found, not written over.
 */
import { AgentPodError } from '../core/error.ts'
import { IN_REPOSITORY, isRepositoryName } from './bare-repository.ts'
import { ABSENT, type Decision, decide, isGone, isSame, keyOf, type State } from './two-way-decide.ts'
import { adopt, type Entry, learn, sentEntry, stampOf, stateOf } from './two-way-entry.ts'
import { LARGEST_BYTES, TOO_LARGE } from './two-way-host.ts'
import { badName, decidesWhatIsSent, isOurs } from './two-way-path.ts'
import type { Content, HostSide, InsideSide, Mark, News, Order, Outcome } from './two-way-side.ts'

/** Past this many paths, one scan costs less than looking at each. */
const MOST_LOOKS = 500
/** A sandbox that removes more than half of a project has lost it rather than changed it. */
const MANY_REMOVED = 50
/** What a sandbox may write on this machine in all: a runaway program ends before the disk does. */
const MOST_TAKEN_BYTES = 8 * 1024 ** 3
const MOST_TAKEN_FILES = 500_000
/** So many files of one directory that all are ignored: it is left out of scans. */
const MANY_IGNORED = 50
const MOST_TOLD = 10_000
/** So many lines at once; a sandbox chooses names, and must not choose how much of a terminal they fill. */
const MOST_LINES = 20
/** Of a file that is never taken: so many versions of it, and none that is larger. */
const MOST_GUARDED_COPIES = 20
const LARGEST_GUARDED_BYTES = 1024 * 1024

export interface SyncOptions {
  readonly host: HostSide
  readonly inside: InsideSide
  /** What went in at the start, as it was on this machine before. */
  readonly sent: ReadonlyMap<string, Mark>
  /** Text for a person. It may hold names from inside. */
  say(line: string): void
}

/** One path, looked at on both sides. */
interface Item {
  readonly path: string
  readonly entry: Entry
  readonly hostMark: Mark
  readonly insideMark: Mark
  readonly host: State
  readonly inside: State
  readonly decision: Decision
}

/** What to look at again. */
export interface Again {
  readonly host: News
  readonly inside: News
}

interface Sight {
  readonly paths: ReadonlySet<string>
  /** What a scan of the inside saw, where there was one. */
  readonly insideScan: ReadonlyMap<string, Mark> | undefined
  readonly hostScan: ReadonlyMap<string, Mark> | undefined
}

export class TwoWay {
  readonly #options: SyncOptions
  readonly #entries = new Map<string, Entry>()
  /** Directories that something synced is, or was, in. */
  readonly #directories = new Set<string>()
  readonly #told = new Map<string, string>()
  #again: { host: Set<string> | 'all'; inside: Set<string> | 'all' } = { host: new Set(), inside: new Set() }
  #taken = { files: 0, bytes: 0 }
  /** Directories inside in which all is ignored. */
  #leftOut: readonly string[] = []
  /** What inside has and this machine could not be given. */
  readonly #unsaved = new Set<string>()
  #lines = 0
  #guardedCopies = 0

  constructor(options: SyncOptions) {
    this.#options = options
    for (const [path, mark] of options.sent) {
      const entry = sentEntry(mark)
      if (entry) this.#remember(path, entry)
    }
  }

  /** What would be lost with the sandbox: it could not be written here. */
  get unsaved(): readonly string[] {
    return [...this.#unsaved]
  }

  /** Brings together what may have changed on each side. Answers what has to be looked at again. */
  async settle(host: News, inside: News): Promise<Again> {
    this.#again = { host: new Set(), inside: new Set() }
    this.#lines = 0
    const sight = await this.#gather(host, inside)
    const suspects = {
      host: new Set(host === 'all' ? [] : host),
      inside: new Set(inside === 'all' ? [] : inside),
    }
    const items = await this.#weigh(sight, suspects)
    const removed = await this.#removeAll(items.filter(isRemoval))
    const rest = items.filter((item) => !isRemoval(item))
    await this.#write(removed > 0 ? await this.#lookAgain(rest) : rest)
    if (this.#lines > MOST_LINES) this.#options.say(`and ${this.#lines - MOST_LINES} more`)
    const again = this.#again
    return {
      host: again.host === 'all' ? 'all' : [...again.host],
      inside: again.inside === 'all' ? 'all' : [...again.inside],
    }
  }

  // What may have changed.

  async #gather(host: News, inside: News): Promise<Sight> {
    const hostScan = host === 'all' ? await this.#options.host.scan() : undefined
    const few = [...(host === 'all' ? [] : host), ...(inside === 'all' ? [] : inside)]
    const paths = new Set([
      ...few.filter((path) => this.#isOne(path)),
      ...(hostScan ? [...this.#unsaved, ...this.#differing(hostScan, 'hostStamp')] : []),
    ])
    const insideScan =
      inside === 'all' || paths.size > MOST_LOOKS ? await this.#options.inside.scan() : undefined
    if (insideScan) for (const path of this.#differing(insideScan, 'insideStamp')) paths.add(path)
    await this.#dropIgnored(paths, insideScan)
    // Other rules may let in what was left out, and keep out what was let in.
    if ([...paths].some(decidesWhatIsSent)) {
      this.#leftOut = []
      if (!hostScan) this.#again.host = 'all'
      if (!insideScan) this.#again.inside = 'all'
    }
    this.#options.inside.leaveOut(this.#leftOut)
    return { paths, hostScan, insideScan }
  }

  #isOne(path: string): boolean {
    return path !== '' && !path.includes('\ufffd') && !isOurs(path)
  }

  /** Paths of a scan that are not as they were, and those that it lacks. */
  #differing(scan: ReadonlyMap<string, Mark>, stamp: 'hostStamp' | 'insideStamp'): string[] {
    const found: string[] = []
    for (const [path, mark] of scan) {
      const entry = this.#entries.get(path)
      if (stamp === 'insideStamp' && entry?.sent) adopt(entry, mark)
      if (mark.kind === 'blocked' ? entry !== undefined : stampOf(mark) !== entry?.[stamp])
        if (this.#isOne(path)) found.push(path)
    }
    for (const [path, { base }] of this.#entries) if (!scan.has(path) && !isGone(base)) found.push(path)
    return found
  }

  /**
   * SECURITY: whatever side a path that is not known comes from, this machine's git says whether it is part of the project. Files that are
   * ignored here, such as keys, do not go in; what is built inside does not come out.
   */
  async #dropIgnored(paths: Set<string>, insideScan: ReadonlyMap<string, Mark> | undefined): Promise<void> {
    for (const path of paths) if (!this.#entries.has(path) && !this.#isWellNamed(path)) paths.delete(path)
    const unknown = [...paths].filter((path) => !this.#entries.has(path))
    if (unknown.length === 0) return
    const ignored = await this.#options.host.ignored(unknown)
    for (const path of ignored) paths.delete(path)
    if (insideScan) this.#leftOut = [...this.#leftOut, ...this.#ignoredDirectories(ignored, insideScan)]
  }

  #isWellNamed(path: string): boolean {
    const why = badName(path) ?? (isRepositoryName(path) ? IN_REPOSITORY : undefined)
    if (why !== undefined && !path.split('/').includes('.git'))
      this.#tell(path, `${path} is not synced: ${why}`)
    return why === undefined
  }

  /** Directories that hold many paths, all of them ignored. */
  #ignoredDirectories(ignored: ReadonlySet<string>, scan: ReadonlyMap<string, Mark>): string[] {
    const counts = new Map<string, number>()
    for (const path of ignored)
      for (const above of directoriesAbove(path)) counts.set(above, (counts.get(above) ?? 0) + 1)
    for (const [path, mark] of scan)
      if (mark.kind !== 'blocked' && !ignored.has(path))
        for (const above of directoriesAbove(path)) counts.delete(above)
    const full = [...counts].flatMap(([path, count]) =>
      count >= MANY_IGNORED && !this.#directories.has(path) ? [path] : [],
    )
    const all = new Set(full)
    return full.filter((path) => !directoriesAbove(path).some((above) => all.has(above)))
  }

  // What it is on each side, and what becomes of it.

  async #weigh(
    sight: Sight,
    suspects: { readonly host: ReadonlySet<string>; readonly inside: ReadonlySet<string> },
  ): Promise<Item[]> {
    const { host, inside } = this.#options
    const { insideScan, hostScan } = sight
    const hostMarks = await host.look([...sight.paths])
    const insideMarks = new Map<string, Mark>()
    for (const path of sight.paths) {
      const mark = insideScan?.get(path)
      if (mark) insideMarks.set(path, mark)
    }
    // What a scan lacks may be what it could not reach; only a look says that it is gone.
    const missing = [...sight.paths].filter((path) => !insideMarks.has(path))
    for (const [path, mark] of await inside.look(missing)) insideMarks.set(path, mark)
    if (hostScan) await this.#forgetIgnored(sight.paths, hostScan, hostMarks)
    const seen = [...sight.paths].flatMap((path) =>
      this.#both(path, hostMarks.get(path), insideMarks.get(path)),
    )
    for (const { path, hostMark, insideMark } of seen) {
      if (!hostScan && this.#isDirectoryNews(path, hostMark)) this.#again.host = 'all'
      if (!insideScan && this.#isDirectoryNews(path, insideMark)) this.#again.inside = 'all'
    }
    return this.#items(seen, suspects)
  }

  /** What was synced and is listed no more, but is there, is ignored by now: both sides keep theirs. */
  async #forgetIgnored(
    paths: ReadonlySet<string>,
    hostScan: ReadonlyMap<string, Mark>,
    hostMarks: Map<string, Mark>,
  ): Promise<void> {
    const unlisted = [...paths].filter((path) => {
      const kind = hostMarks.get(path)?.kind
      return this.#entries.has(path) && !hostScan.has(path) && (kind === 'file' || kind === 'link')
    })
    if (unlisted.length === 0) return
    for (const path of await this.#options.host.ignored(unlisted)) {
      this.#entries.delete(path)
      hostMarks.delete(path)
    }
  }

  #both(path: string, hostMark: Mark | undefined, insideMark: Mark | undefined): Seen[] {
    if (!hostMark || !insideMark) return []
    const entry = this.#entries.get(path) ?? { base: ABSENT }
    if (entry.sent) adopt(entry, insideMark)
    const large = [hostMark, insideMark].some(
      (mark) => mark.kind === 'file' && mark.sizeBytes > LARGEST_BYTES,
    )
    if (large) this.#tell(path, `${path} is not synced: ${TOO_LARGE}`)
    return large ? [] : [{ path, entry, hostMark, insideMark }]
  }

  /** A directory that came or went has contents that nobody told of. */
  #isDirectoryNews(path: string, mark: Mark): boolean {
    return (
      (mark.kind === 'blocked' && mark.isDirectory) ||
      (mark.kind !== 'blocked' && this.#directories.has(path))
    )
  }

  async #items(
    seen: readonly Seen[],
    suspects: { readonly host: ReadonlySet<string>; readonly inside: ReadonlySet<string> },
  ): Promise<Item[]> {
    const { host, inside } = this.#options
    const isNew = (mark: Mark, stamp: string | undefined, isSuspect: boolean): boolean =>
      mark.kind === 'file' && (isSuspect || mark.stamp !== stamp)
    const hostNew = new Set(
      seen.filter((one) => isNew(one.hostMark, one.entry.hostStamp, suspects.host.has(one.path))).map(pathOf),
    )
    const insideNew = new Set(
      seen
        .filter((one) => isNew(one.insideMark, one.entry.insideStamp, suspects.inside.has(one.path)))
        .map(pathOf),
    )
    // Where one side changed and what was agreed on was never read, the other side has it.
    const unread = seen.filter(({ entry: { base } }) => base.kind === 'file' && base.hash === undefined)
    const fromHost = unread.filter(
      (one) => insideNew.has(one.path) && !hostNew.has(one.path) && one.hostMark.kind === 'file',
    )
    const fromInside = unread.filter(
      (one) => hostNew.has(one.path) && !insideNew.has(one.path) && one.insideMark.kind === 'file',
    )
    const hostHashes = await host.hash([...hostNew, ...fromHost.map(pathOf)])
    const insideHashes = await inside.hash([...insideNew, ...fromInside.map(pathOf)])
    for (const { path, entry } of fromHost) learn(entry, hostHashes.get(path))
    for (const { path, entry } of fromInside) learn(entry, insideHashes.get(path))
    return seen.flatMap((one) => {
      const { path, entry } = one
      const ours = stateOf(one.hostMark, entry, hostNew.has(path), hostHashes.get(path))
      const theirs = stateOf(one.insideMark, entry, insideNew.has(path), insideHashes.get(path))
      return ours && theirs ? [this.#decided({ ...one, host: ours, inside: theirs })] : []
    })
  }

  #decided(one: Omit<Item, 'decision'>): Item {
    return { ...one, decision: decide(one.entry.base, one.host, one.inside) }
  }

  /** Removing files may have made room where a directory stood. */
  async #lookAgain(items: readonly Item[]): Promise<Item[]> {
    const blocked = items.filter(({ host, inside }) => host.kind === 'blocked' || inside.kind === 'blocked')
    if (blocked.length === 0) return [...items]
    const { host, inside } = this.#options
    const hostMarks = await host.look(blocked.map(pathOf))
    const insideMarks = await inside.look(blocked.map(pathOf))
    return items.map((item) => {
      const [hostMark, insideMark] = [hostMarks.get(item.path), insideMarks.get(item.path)]
      if (hostMark?.kind === 'absent' && item.host.kind === 'blocked')
        return this.#decided({ ...item, hostMark, host: ABSENT })
      if (insideMark?.kind === 'absent' && item.inside.kind === 'blocked')
        return this.#decided({ ...item, insideMark, inside: ABSENT })
      return item
    })
  }

  // What is done about it.

  /** Answers how many were removed. */
  async #removeAll(items: readonly Item[]): Promise<number> {
    const taken = this.#reasonable(items.filter(({ decision }) => decision === 'take'))
    let count = 0
    for (const item of taken) {
      const outcome = await this.#options.host.put(item.path, item.hostMark, ABSENT, noContent)
      if (this.#finish(item, outcome, 'here')) count++
    }
    const sent = items.filter(({ decision }) => decision === 'send')
    return count + (await this.#send(sent))
  }

  /** A sandbox whose project is gone, or nearly so, takes nothing of it away here. */
  #reasonable(removals: readonly Item[]): readonly Item[] {
    const free = removals.filter((item) => !this.#isGuarded(item))
    const isTooMuch = free.length > MANY_REMOVED && free.length > this.#entries.size / 2
    if (isTooMuch)
      this.#tell(
        '',
        `${free.length} files are gone inside; they are left here, and are sent in again with the next start`,
      )
    else this.#told.delete('')
    return isTooMuch ? [] : free
  }

  /** What the rules of git are is for this machine to say: the sandbox's version is put beside, and nothing is taken. */
  #isGuarded({ path, entry, inside }: Item): boolean {
    if (!decidesWhatIsSent(path)) return false
    if (entry.held !== keyOf(inside) && isGone(inside))
      this.#say(`${path} is removed inside and stays here: it says what of this directory is sent in`)
    if (isGone(inside)) this.#hold(path, entry, inside)
    return true
  }

  async #write(items: readonly Item[]): Promise<void> {
    const sends: Item[] = []
    for (const item of items) {
      if (item.decision === 'none' || item.decision === 'agree') this.#agree(item)
      else if (item.decision === 'stuck') this.#stuck(item)
      else if (item.decision === 'take') await this.#take(item)
      else if (item.decision === 'send' || (await this.#setAside(item))) sends.push(item)
    }
    // What is removed makes room for what comes.
    await this.#send(sends.toSorted((a, b) => Number(isGone(b.host)) - Number(isGone(a.host))))
  }

  #agree({ path, entry, host, inside, hostMark, insideMark, decision }: Item): void {
    if (decision === 'agree') entry.base = isGone(host) ? ABSENT : host
    if (isGone(entry.base)) {
      this.#clear(path, entry)
      this.#entries.delete(path)
      return
    }
    if (isSame(entry.base, host)) entry.hostStamp = stampOf(hostMark)
    if (isSame(entry.base, inside)) entry.insideStamp = stampOf(insideMark)
    this.#clear(path, entry)
    this.#remember(path, entry)
  }

  #stuck({ path, entry, inside }: Item): void {
    if (entry.held === keyOf(inside)) return
    this.#say(`${path} is a file here and a directory inside; both stay as they are`)
    this.#hold(path, entry, inside)
  }

  async #take(item: Item): Promise<void> {
    const { path, entry, inside, insideMark } = item
    if (entry.held === keyOf(inside)) return
    if (decidesWhatIsSent(path)) return this.#takeGuarded(item)
    this.#count(insideMark)
    const outcome = await this.#options.host.put(path, item.hostMark, inside, () =>
      this.#options.inside.read(path),
    )
    const isInTheWay = outcome.status === 'failed' && outcome.isInTheWay === true
    if (!isInTheWay) this.#finish(item, outcome, 'here')
    // What cannot be here at all is kept beside, or is a link that may not be; either way once.
    const isOver = isInTheWay
      ? await this.#setAside(item)
      : outcome.status === 'failed' && inside.kind === 'link'
    if (isOver) this.#hold(path, entry, inside)
  }

  async #takeGuarded(item: Item): Promise<void> {
    const { path, entry, inside, insideMark } = item
    const isTooMuch =
      this.#guardedCopies >= MOST_GUARDED_COPIES ||
      (insideMark.kind === 'file' && insideMark.sizeBytes > LARGEST_GUARDED_BYTES)
    const name = isTooMuch ? undefined : await this.#copyOf(item)
    if (name === undefined && !isTooMuch) return
    this.#guardedCopies++
    this.#say(
      `${path} was changed inside and is not taken, since it says what of this directory is sent in; the sandbox’s is ${name ?? 'there alone'}`,
    )
    if (!isTooMuch) entry.saved = keyOf(inside)
    this.#hold(path, entry, inside)
  }

  /** SECURITY: no sandbox fills the disk of this machine. */
  #count(mark: Mark): void {
    const size = mark.kind === 'file' ? mark.sizeBytes : 0
    this.#taken = { files: this.#taken.files + 1, bytes: this.#taken.bytes + size }
    if (this.#taken.files > MOST_TAKEN_FILES || this.#taken.bytes > MOST_TAKEN_BYTES) throw tooMuch()
  }

  /** Puts the sandbox's version beside ours; false where that failed, and nothing more may be done to it. */
  async #setAside(item: Item): Promise<boolean> {
    const { path, entry, inside } = item
    if (entry.saved === keyOf(inside)) return true
    const name = await this.#copyOf(item)
    if (name === undefined) return false
    entry.saved = keyOf(inside)
    this.#say(`conflict: ${path} was changed on both sides; yours stays, the sandbox’s is ${name}`)
    return true
  }

  async #copyOf({ path, inside, insideMark }: Item): Promise<string | undefined> {
    const { host, inside: side } = this.#options
    this.#count(insideMark)
    try {
      return await host.putBeside(path, () =>
        inside.kind === 'link' ? Promise.resolve(textOf(inside.target)) : side.read(path),
      )
    } catch (error) {
      this.#unsaved.add(path)
      this.#tell(
        path,
        `${path} was changed on both sides, and the sandbox’s could not be put beside yours: ${messageOf(error)}`,
      )
      return undefined
    }
  }

  /** Answers how many were done. */
  async #send(items: readonly Item[]): Promise<number> {
    if (items.length === 0) return 0
    const orders = items.map((item) => this.#order(item))
    const outcomes = await this.#options.inside.change(orders)
    let count = 0
    for (const item of items)
      if (this.#finish(item, outcomes.get(item.path) ?? { status: 'changed' }, 'inside')) count++
    return count
  }

  #order({ path, host, hostMark, insideMark }: Item): Order {
    return {
      path,
      expected: insideMark,
      state: isGone(host) ? ABSENT : host,
      sizeBytes: hostMark.kind === 'file' ? hostMark.sizeBytes : 0,
      content: () => this.#options.host.read(path),
    }
  }

  /** Remembers what a change made the same. */
  #finish(item: Item, outcome: Outcome, where: 'here' | 'inside'): boolean {
    const { path, entry } = item
    if (outcome.status === 'changed') {
      for (const set of [this.#again.host, this.#again.inside]) if (set !== 'all') set.add(path)
      return false
    }
    if (outcome.status === 'failed') {
      this.#tell(path, `${path} is not synced: ${outcome.why}`)
      if (where === 'here' && item.inside.kind === 'file') this.#unsaved.add(path)
      return false
    }
    entry.base = outcome.state
    if (isGone(outcome.state)) {
      this.#clear(path, entry)
      this.#entries.delete(path)
      return true
    }
    const source = where === 'here' ? item.inside : item.host
    const sourceStamp = stampOf(where === 'here' ? item.insideMark : item.hostMark)
    // What was read may be newer than what was looked at; then a reading has to tell once more.
    const known = isSame(source, outcome.state) ? sourceStamp : undefined
    entry.hostStamp = where === 'here' ? outcome.stamp : known
    entry.insideStamp = where === 'here' ? known : outcome.stamp
    this.#clear(path, entry)
    this.#remember(path, entry)
    return true
  }

  #remember(path: string, entry: Entry): void {
    this.#entries.set(path, entry)
    for (const above of directoriesAbove(path)) {
      if (this.#directories.has(above)) break
      this.#directories.add(above)
    }
  }

  #hold(path: string, entry: Entry, inside: State): void {
    entry.held = keyOf(inside)
    this.#entries.set(path, entry)
  }

  #clear(path: string, entry: Entry): void {
    entry.held = undefined
    entry.saved = undefined
    entry.sent = undefined
    this.#told.delete(path)
    this.#unsaved.delete(path)
  }

  /** Says what is wrong with a path, once for as long as it is wrong in the same way. */
  #tell(path: string, line: string): void {
    if (this.#told.get(path) === line) return
    if (this.#told.size >= MOST_TOLD) this.#told.clear()
    this.#told.set(path, line)
    this.#say(line)
  }

  #say(line: string): void {
    if (++this.#lines <= MOST_LINES) this.#options.say(line)
  }
}

type Seen = Pick<Item, 'path' | 'entry' | 'hostMark' | 'insideMark'>

function isRemoval({ decision, host, inside }: Item): boolean {
  return (decision === 'take' && isGone(inside)) || (decision === 'send' && isGone(host))
}

function pathOf({ path }: { readonly path: string }): string {
  return path
}

/** The nearest first. */
function directoriesAbove(path: string): string[] {
  const found: string[] = []
  for (let cut = path.lastIndexOf('/'); cut > 0; cut = path.lastIndexOf('/', cut - 1))
    found.push(path.slice(0, cut))
  return found
}

function noContent(): Promise<Content> {
  return Promise.resolve(textOf(''))
}

async function* textOf(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function tooMuch(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'sync.too_much',
    message: `the sandbox wrote more than ${MOST_TAKEN_BYTES / 1024 ** 3} GiB or ${MOST_TAKEN_FILES} files into the project`,
    hint: 'list what is built in .gitignore and start again',
  })
}
