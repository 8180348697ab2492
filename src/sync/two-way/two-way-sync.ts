/**
 * Two-way sync of one project, path by path, between this machine and a sandbox. It remembers the state that
 * both sides last agreed on; a side that differs from it has changed. Each change is made only if the path is
 * still as it was checked, so a concurrent write is detected and never overwritten.
 */
import { AgentPodError } from '../../core/error.ts'
import { IN_REPOSITORY, isRepositoryName } from '../bare-repository.ts'
import {
  ABSENT,
  decidePath,
  isAbsent,
  isSameState,
  type PathDecision,
  type PathState,
  stateKey,
} from './decide-path.ts'
import { LARGEST_SYNCED_BYTES, TOO_LARGE } from './host-directory.ts'
import { confirmSent, learnHash, type PathRecord, pathStateOf, recordOfSent, stampOf } from './path-record.ts'
import { isIgnoreFile, isSyncFile, nameRefusal } from './path-rules.ts'
import type {
  ChangeNotice,
  ChangeOrder,
  ChangeOutcome,
  ContentStream,
  HostSide,
  PathStat,
  SandboxSide,
} from './side.ts'

/** With more paths than this, one scan is cheaper than a stat of each. */
const MOST_LOOKS = 500
/**
 * If more files than this and half of the project disappear in the sandbox, that is taken for an accident.
 */
const MANY_REMOVED = 50
/**
 * Limits of what a sandbox may write on this machine in all, so that a runaway program does not fill the
 * disk.
 */
const MOST_TAKEN_BYTES = 8 * 1024 ** 3
const MOST_TAKEN_FILES = 500_000
/** A directory with this many files, all of them ignored, is skipped in scans. */
const MANY_IGNORED = 50
const MOST_TOLD = 10_000
/** Lines per round. A sandbox chooses names and must not be able to flood the terminal. */
const MOST_LINES = 20
/** Limits for copies of `.gitignore` files, which are never taken. */
const MOST_GUARDED_COPIES = 20
const LARGEST_GUARDED_BYTES = 1024 * 1024

export interface SyncOptions {
  readonly host: HostSide
  readonly inside: SandboxSide
  /** The files that were sent at the start, with their stat on this machine from before. */
  readonly sent: ReadonlyMap<string, PathStat>
  /** Shows a line to the user. It may contain names from the sandbox. */
  say(line: string): void
}

/** One path with its state on both sides. */
interface Item {
  readonly path: string
  readonly entry: PathRecord
  readonly hostStat: PathStat
  readonly insideStat: PathStat
  readonly host: PathState
  readonly inside: PathState
  readonly decision: PathDecision
}

/** Paths that changed during a round. */
export interface PathsToRecheck {
  readonly host: ChangeNotice
  readonly inside: ChangeNotice
}

interface Candidates {
  readonly paths: ReadonlySet<string>
  /** Set if the sandbox was scanned. */
  readonly insideScan: ReadonlyMap<string, PathStat> | undefined
  readonly hostScan: ReadonlyMap<string, PathStat> | undefined
}

export class TwoWaySync {
  readonly #options: SyncOptions
  readonly #entries = new Map<string, PathRecord>()
  /** Directories that hold, or held, a synced path. */
  readonly #directories = new Set<string>()
  readonly #told = new Map<string, string>()
  #again: { host: Set<string> | 'all'; inside: Set<string> | 'all' } = { host: new Set(), inside: new Set() }
  #taken = { files: 0, bytes: 0 }
  /** Directories in the sandbox whose files are all ignored. */
  #leftOut: readonly string[] = []
  /** Paths whose version in the sandbox could not be saved on this machine. */
  readonly #unsaved = new Set<string>()
  #lines = 0
  #guardedCopies = 0

  constructor(options: SyncOptions) {
    this.#options = options
    for (const [path, stat] of options.sent) {
      const entry = recordOfSent(stat)
      if (entry) this.#remember(path, entry)
    }
  }

  /** Paths that would be lost with the sandbox, because they could not be saved here. */
  get unsaved(): readonly string[] {
    return [...this.#unsaved]
  }

  /** Syncs the paths that may have changed on each side. Returns the paths to check again. */
  async settle(host: ChangeNotice, inside: ChangeNotice): Promise<PathsToRecheck> {
    this.#again = { host: new Set(), inside: new Set() }
    this.#lines = 0
    const candidates = await this.#findCandidates(host, inside)
    const suspects = {
      host: new Set(host === 'all' ? [] : host),
      inside: new Set(inside === 'all' ? [] : inside),
    }
    const items = await this.#decideAll(candidates, suspects)
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

  // Find the paths that may have changed.

  async #findCandidates(host: ChangeNotice, inside: ChangeNotice): Promise<Candidates> {
    const hostScan = host === 'all' ? await this.#options.host.scan() : undefined
    const few = [...(host === 'all' ? [] : host), ...(inside === 'all' ? [] : inside)]
    const paths = new Set([
      ...few.filter((path) => this.#isSyncable(path)),
      ...(hostScan ? [...this.#unsaved, ...this.#differing(hostScan, 'hostStamp')] : []),
    ])
    const insideScan =
      inside === 'all' || paths.size > MOST_LOOKS ? await this.#options.inside.scan() : undefined
    if (insideScan) for (const path of this.#differing(insideScan, 'insideStamp')) paths.add(path)
    await this.#dropIgnored(paths, insideScan)
    // Changed ignore rules can include paths that were skipped, and exclude paths that were synced.
    if ([...paths].some(isIgnoreFile)) {
      this.#leftOut = []
      if (!hostScan) this.#again.host = 'all'
      if (!insideScan) this.#again.inside = 'all'
    }
    this.#options.inside.excludeFromScans(this.#leftOut)
    return { paths, hostScan, insideScan }
  }

  #isSyncable(path: string): boolean {
    return path !== '' && !path.includes('\ufffd') && !isSyncFile(path)
  }

  /** Paths of a scan that changed, and remembered paths that it lacks. */
  #differing(scan: ReadonlyMap<string, PathStat>, stamp: 'hostStamp' | 'insideStamp'): string[] {
    const found: string[] = []
    for (const [path, stat] of scan) {
      const entry = this.#entries.get(path)
      if (stamp === 'insideStamp' && entry?.sent) confirmSent(entry, stat)
      if (stat.kind === 'blocked' ? entry !== undefined : stampOf(stat) !== entry?.[stamp])
        if (this.#isSyncable(path)) found.push(path)
    }
    for (const [path, { base }] of this.#entries) if (!scan.has(path) && !isAbsent(base)) found.push(path)
    return found
  }

  /**
   * SECURITY: git on this machine decides whether an unknown path is part of the project, whichever side it
   * comes from. Files that are ignored here, such as keys, are not sent; build output of the sandbox is not
   * taken.
   */
  async #dropIgnored(
    paths: Set<string>,
    insideScan: ReadonlyMap<string, PathStat> | undefined,
  ): Promise<void> {
    for (const path of paths) if (!this.#entries.has(path) && !this.#isWellNamed(path)) paths.delete(path)
    const unknown = [...paths].filter((path) => !this.#entries.has(path))
    if (unknown.length === 0) return
    const ignored = await this.#options.host.ignored(unknown)
    for (const path of ignored) paths.delete(path)
    if (insideScan) this.#leftOut = [...this.#leftOut, ...this.#ignoredDirectories(ignored, insideScan)]
  }

  #isWellNamed(path: string): boolean {
    const why = nameRefusal(path) ?? (isRepositoryName(path) ? IN_REPOSITORY : undefined)
    if (why !== undefined && !path.split('/').includes('.git'))
      this.#tell(path, `${path} is not synced: ${why}`)
    return why === undefined
  }

  /** Directories with many paths, all of them ignored. */
  #ignoredDirectories(ignored: ReadonlySet<string>, scan: ReadonlyMap<string, PathStat>): string[] {
    const counts = new Map<string, number>()
    for (const path of ignored)
      for (const above of directoriesAbove(path)) counts.set(above, (counts.get(above) ?? 0) + 1)
    for (const [path, stat] of scan)
      if (stat.kind !== 'blocked' && !ignored.has(path))
        for (const above of directoriesAbove(path)) counts.delete(above)
    const full = [...counts].flatMap(([path, count]) =>
      count >= MANY_IGNORED && !this.#directories.has(path) ? [path] : [],
    )
    const all = new Set(full)
    return full.filter((path) => !directoriesAbove(path).some((above) => all.has(above)))
  }

  // Decide what to do about each path.

  async #decideAll(
    candidates: Candidates,
    suspects: { readonly host: ReadonlySet<string>; readonly inside: ReadonlySet<string> },
  ): Promise<Item[]> {
    const { host, inside } = this.#options
    const { insideScan, hostScan } = candidates
    const hostStats = await host.look([...candidates.paths])
    const insideStats = new Map<string, PathStat>()
    for (const path of candidates.paths) {
      const stat = insideScan?.get(path)
      if (stat) insideStats.set(path, stat)
    }
    // A scan may lack a path that it could not reach; only a stat proves that the path is absent.
    const missing = [...candidates.paths].filter((path) => !insideStats.has(path))
    for (const [path, stat] of await inside.look(missing)) insideStats.set(path, stat)
    if (hostScan) await this.#forgetIgnored(candidates.paths, hostScan, hostStats)
    const seen = [...candidates.paths].flatMap((path) =>
      this.#both(path, hostStats.get(path), insideStats.get(path)),
    )
    for (const { path, hostStat, insideStat } of seen) {
      if (!hostScan && this.#isDirectoryChange(path, hostStat)) this.#again.host = 'all'
      if (!insideScan && this.#isDirectoryChange(path, insideStat)) this.#again.inside = 'all'
    }
    return this.#items(seen, suspects)
  }

  /** A synced path that exists but is no longer listed has become ignored: both sides keep their version. */
  async #forgetIgnored(
    paths: ReadonlySet<string>,
    hostScan: ReadonlyMap<string, PathStat>,
    hostStats: Map<string, PathStat>,
  ): Promise<void> {
    const unlisted = [...paths].filter((path) => {
      const kind = hostStats.get(path)?.kind
      return this.#entries.has(path) && !hostScan.has(path) && (kind === 'file' || kind === 'link')
    })
    if (unlisted.length === 0) return
    for (const path of await this.#options.host.ignored(unlisted)) {
      this.#entries.delete(path)
      hostStats.delete(path)
    }
  }

  #both(path: string, hostStat: PathStat | undefined, insideStat: PathStat | undefined): Seen[] {
    if (!hostStat || !insideStat) return []
    const entry = this.#entries.get(path) ?? { base: ABSENT }
    if (entry.sent) confirmSent(entry, insideStat)
    const large = [hostStat, insideStat].some(
      (stat) => stat.kind === 'file' && stat.sizeBytes > LARGEST_SYNCED_BYTES,
    )
    if (large) this.#tell(path, `${path} is not synced: ${TOO_LARGE}`)
    return large ? [] : [{ path, entry, hostStat, insideStat }]
  }

  /** A directory that appeared or disappeared has contents that were not reported. */
  #isDirectoryChange(path: string, stat: PathStat): boolean {
    return (
      (stat.kind === 'blocked' && stat.isDirectory) ||
      (stat.kind !== 'blocked' && this.#directories.has(path))
    )
  }

  async #items(
    seen: readonly Seen[],
    suspects: { readonly host: ReadonlySet<string>; readonly inside: ReadonlySet<string> },
  ): Promise<Item[]> {
    const { host, inside } = this.#options
    const isNew = (stat: PathStat, stamp: string | undefined, isSuspect: boolean): boolean =>
      stat.kind === 'file' && (isSuspect || stat.stamp !== stamp)
    const hostNew = new Set(
      seen.filter((one) => isNew(one.hostStat, one.entry.hostStamp, suspects.host.has(one.path))).map(pathOf),
    )
    const insideNew = new Set(
      seen
        .filter((one) => isNew(one.insideStat, one.entry.insideStamp, suspects.inside.has(one.path)))
        .map(pathOf),
    )
    // If the base was never read and one side changed, the other side still has the base.
    const unread = seen.filter(({ entry: { base } }) => base.kind === 'file' && base.hash === undefined)
    const fromHost = unread.filter(
      (one) => insideNew.has(one.path) && !hostNew.has(one.path) && one.hostStat.kind === 'file',
    )
    const fromInside = unread.filter(
      (one) => hostNew.has(one.path) && !insideNew.has(one.path) && one.insideStat.kind === 'file',
    )
    const hostHashes = await host.hash([...hostNew, ...fromHost.map(pathOf)])
    const insideHashes = await inside.hash([...insideNew, ...fromInside.map(pathOf)])
    for (const { path, entry } of fromHost) learnHash(entry, hostHashes.get(path))
    for (const { path, entry } of fromInside) learnHash(entry, insideHashes.get(path))
    return seen.flatMap((one) => {
      const { path, entry } = one
      const ours = pathStateOf(one.hostStat, entry, hostNew.has(path), hostHashes.get(path))
      const theirs = pathStateOf(one.insideStat, entry, insideNew.has(path), insideHashes.get(path))
      return ours && theirs ? [this.#decided({ ...one, host: ours, inside: theirs })] : []
    })
  }

  #decided(one: Omit<Item, 'decision'>): Item {
    return { ...one, decision: decidePath(one.entry.base, one.host, one.inside) }
  }

  /** Removing files may have removed a directory that blocked a path. */
  async #lookAgain(items: readonly Item[]): Promise<Item[]> {
    const blocked = items.filter(({ host, inside }) => host.kind === 'blocked' || inside.kind === 'blocked')
    if (blocked.length === 0) return [...items]
    const { host, inside } = this.#options
    const hostStats = await host.look(blocked.map(pathOf))
    const insideStats = await inside.look(blocked.map(pathOf))
    return items.map((item) => {
      const [hostStat, insideStat] = [hostStats.get(item.path), insideStats.get(item.path)]
      if (hostStat?.kind === 'absent' && item.host.kind === 'blocked')
        return this.#decided({ ...item, hostStat, host: ABSENT })
      if (insideStat?.kind === 'absent' && item.inside.kind === 'blocked')
        return this.#decided({ ...item, insideStat, inside: ABSENT })
      return item
    })
  }

  // Make the changes.

  /** Returns how many were removed. */
  async #removeAll(items: readonly Item[]): Promise<number> {
    const taken = this.#withoutMassRemoval(items.filter(({ decision }) => decision === 'take'))
    let count = 0
    for (const item of taken) {
      const outcome = await this.#options.host.put(item.path, item.hostStat, ABSENT, noContent)
      if (this.#finish(item, outcome, 'here')) count++
    }
    const sent = items.filter(({ decision }) => decision === 'send')
    return count + (await this.#send(sent))
  }

  /** If most of the project disappears in the sandbox, nothing is removed here. */
  #withoutMassRemoval(removals: readonly Item[]): readonly Item[] {
    const free = removals.filter((item) => !this.#isGuarded(item))
    const isTooMuch = free.length > MANY_REMOVED && free.length > this.#entries.size / 2
    if (isTooMuch)
      this.#tell(
        '',
        `${free.length} files disappeared in the sandbox; yours are kept, and are sent again at the next start`,
      )
    else this.#told.delete('')
    return isTooMuch ? [] : free
  }

  /**
   * Ignore rules are decided on this machine: the sandbox's version is saved next to ours and never taken.
   */
  #isGuarded({ path, entry, inside }: Item): boolean {
    if (!isIgnoreFile(path)) return false
    if (entry.held !== stateKey(inside) && isAbsent(inside))
      this.#say(
        `${path} was removed in the sandbox and is kept here: it decides which files are sent to the sandbox`,
      )
    if (isAbsent(inside)) this.#hold(path, entry, inside)
    return true
  }

  async #write(items: readonly Item[]): Promise<void> {
    const sends: Item[] = []
    for (const item of items) {
      if (item.decision === 'none' || item.decision === 'agree') this.#agree(item)
      else if (item.decision === 'stuck') this.#stuck(item)
      else if (item.decision === 'take') await this.#take(item)
      else if (item.decision === 'send' || (await this.#saveCopy(item))) sends.push(item)
    }
    // Removals first: they may make room for other paths.
    await this.#send(sends.toSorted((a, b) => Number(isAbsent(b.host)) - Number(isAbsent(a.host))))
  }

  #agree({ path, entry, host, inside, hostStat, insideStat, decision }: Item): void {
    if (decision === 'agree') entry.base = isAbsent(host) ? ABSENT : host
    if (isAbsent(entry.base)) {
      this.#clear(path, entry)
      this.#entries.delete(path)
      return
    }
    if (isSameState(entry.base, host)) entry.hostStamp = stampOf(hostStat)
    if (isSameState(entry.base, inside)) entry.insideStamp = stampOf(insideStat)
    this.#clear(path, entry)
    this.#remember(path, entry)
  }

  #stuck({ path, entry, inside }: Item): void {
    if (entry.held === stateKey(inside)) return
    this.#say(`${path} is a file here and a directory in the sandbox; both are kept`)
    this.#hold(path, entry, inside)
  }

  async #take(item: Item): Promise<void> {
    const { path, entry, inside, insideStat } = item
    if (entry.held === stateKey(inside)) return
    if (isIgnoreFile(path)) return this.#takeGuarded(item)
    this.#count(insideStat)
    const outcome = await this.#options.host.put(path, item.hostStat, inside, () =>
      this.#options.inside.read(path),
    )
    const isInTheWay = outcome.status === 'failed' && outcome.isInTheWay === true
    if (!isInTheWay) this.#finish(item, outcome, 'here')
    // A version that cannot be written here is saved as a copy; a refused link is skipped. Either is reported
    // once.
    const isOver = isInTheWay
      ? await this.#saveCopy(item)
      : outcome.status === 'failed' && inside.kind === 'link'
    if (isOver) this.#hold(path, entry, inside)
  }

  async #takeGuarded(item: Item): Promise<void> {
    const { path, entry, inside, insideStat } = item
    const isTooMuch =
      this.#guardedCopies >= MOST_GUARDED_COPIES ||
      (insideStat.kind === 'file' && insideStat.sizeBytes > LARGEST_GUARDED_BYTES)
    const name = isTooMuch ? undefined : await this.#copyOf(item)
    if (name === undefined && !isTooMuch) return
    this.#guardedCopies++
    this.#say(
      `${path} was changed in the sandbox and is not copied here, because it decides which files are sent to the sandbox; the sandbox’s version is ${name === undefined ? 'only in the sandbox' : `in ${name}`}`,
    )
    if (!isTooMuch) entry.saved = stateKey(inside)
    this.#hold(path, entry, inside)
  }

  /** SECURITY: a sandbox cannot fill the disk of this machine. */
  #count(stat: PathStat): void {
    const size = stat.kind === 'file' ? stat.sizeBytes : 0
    this.#taken = { files: this.#taken.files + 1, bytes: this.#taken.bytes + size }
    if (this.#taken.files > MOST_TAKEN_FILES || this.#taken.bytes > MOST_TAKEN_BYTES) throw tooMuch()
  }

  /**
   * Saves the sandbox's version next to ours; false if that failed, and then the path must not be changed.
   */
  async #saveCopy(item: Item): Promise<boolean> {
    const { path, entry, inside } = item
    if (entry.saved === stateKey(inside)) return true
    const name = await this.#copyOf(item)
    if (name === undefined) return false
    entry.saved = stateKey(inside)
    this.#say(
      `conflict: ${path} was changed on both sides; yours is kept, the sandbox’s version is in ${name}`,
    )
    return true
  }

  async #copyOf({ path, inside, insideStat }: Item): Promise<string | undefined> {
    const { host, inside: side } = this.#options
    this.#count(insideStat)
    try {
      return await host.writeConflictCopy(path, () =>
        inside.kind === 'link' ? Promise.resolve(textOf(inside.target)) : side.read(path),
      )
    } catch (error) {
      this.#unsaved.add(path)
      this.#tell(
        path,
        `${path} was changed on both sides, and the sandbox’s version could not be saved next to yours: ${messageOf(error)}`,
      )
      return undefined
    }
  }

  /** Returns how many changes were made. */
  async #send(items: readonly Item[]): Promise<number> {
    if (items.length === 0) return 0
    const orders = items.map((item) => this.#order(item))
    const outcomes = await this.#options.inside.change(orders)
    let count = 0
    for (const item of items)
      if (this.#finish(item, outcomes.get(item.path) ?? { status: 'changed' }, 'inside')) count++
    return count
  }

  #order({ path, host, hostStat, insideStat }: Item): ChangeOrder {
    return {
      path,
      expected: insideStat,
      state: isAbsent(host) ? ABSENT : host,
      sizeBytes: hostStat.kind === 'file' ? hostStat.sizeBytes : 0,
      content: () => this.#options.host.read(path),
    }
  }

  /** Records the result of a change. */
  #finish(item: Item, outcome: ChangeOutcome, where: 'here' | 'inside'): boolean {
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
    if (isAbsent(outcome.state)) {
      this.#clear(path, entry)
      this.#entries.delete(path)
      return true
    }
    const source = where === 'here' ? item.inside : item.host
    const sourceStamp = stampOf(where === 'here' ? item.insideStat : item.hostStat)
    // The content that was copied may be newer than the stat; then the file has to be read again.
    const known = isSameState(source, outcome.state) ? sourceStamp : undefined
    entry.hostStamp = where === 'here' ? outcome.stamp : known
    entry.insideStamp = where === 'here' ? known : outcome.stamp
    this.#clear(path, entry)
    this.#remember(path, entry)
    return true
  }

  #remember(path: string, entry: PathRecord): void {
    this.#entries.set(path, entry)
    for (const above of directoriesAbove(path)) {
      if (this.#directories.has(above)) break
      this.#directories.add(above)
    }
  }

  #hold(path: string, entry: PathRecord, inside: PathState): void {
    entry.held = stateKey(inside)
    this.#entries.set(path, entry)
  }

  #clear(path: string, entry: PathRecord): void {
    entry.held = undefined
    entry.saved = undefined
    entry.sent = undefined
    this.#told.delete(path)
    this.#unsaved.delete(path)
  }

  /** Reports a problem with a path, once for as long as the problem is the same. */
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

type Seen = Pick<Item, 'path' | 'entry' | 'hostStat' | 'insideStat'>

function isRemoval({ decision, host, inside }: Item): boolean {
  return (decision === 'take' && isAbsent(inside)) || (decision === 'send' && isAbsent(host))
}

function pathOf({ path }: { readonly path: string }): string {
  return path
}

/** Nearest first. */
function directoriesAbove(path: string): string[] {
  const found: string[] = []
  for (let cut = path.lastIndexOf('/'); cut > 0; cut = path.lastIndexOf('/', cut - 1))
    found.push(path.slice(0, cut))
  return found
}

function noContent(): Promise<ContentStream> {
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
    hint: 'add build output to .gitignore and start again',
  })
}
