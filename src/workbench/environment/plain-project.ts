/**
 * Remembers that nothing in a repository's files asks for an environment. The code that looks for that is
 * large, and most commands run on files that it has seen.
 */
import { type BigIntStats, lstatSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../../core/home.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import type { WorkingList } from '../../sync/git/state/working-files.ts'
import { systemClock } from '../../util/clock.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { BUILD } from '../../util/version.ts'
import { projectDirectory, projectKey } from '../project/project-state.ts'

/** What was seen. Other files with the same list and the same times would be the same files. */
interface Seen {
  readonly build: string
  readonly index: string
  readonly list: string
  /** Each file that was looked at, also one that was not there, as it was then. */
  readonly files: Readonly<Record<string, string>>
}

export interface PlainProject {
  /** Whether nothing was found with this index, which then was whole. */
  isIndex(digest: string): boolean
  /** Whether nothing would be found now. */
  isStill(list: WorkingList): boolean
}

/** Where sources run without a build, they may be different ones each time. */
export function plainProject(
  home: Home,
  repo: Repository,
  build: string | undefined = BUILD,
): PlainProject | undefined {
  const seen = build === undefined ? undefined : readSeen(fileOf(home, repo))
  if (!seen || seen.build !== build) return undefined
  return {
    isIndex: (digest) => seen.index === digest,
    isStill: ({ key }) =>
      seen.list === key &&
      Object.entries(seen.files).every(([path, was]) => stampOf(join(repo.root, path))?.text === was),
  }
}

/** More files than this are looked at again each time. */
const MOST_FILES = 500
/** A file that changes again within this time may have the same times. */
const SETTLED_MS = 2000

/** The files that are looked at, as they are just before. */
export class LookedAt {
  readonly #root: string
  readonly #files = new Map<string, string>()
  #isUsable = true

  constructor(root: string) {
    this.#root = root
  }

  add(path: string): void {
    if (!this.#isUsable || this.#files.has(path)) return
    const stamp = stampOf(join(this.#root, path))
    this.#isUsable = stamp?.isSettled === true && this.#files.size < MOST_FILES
    if (stamp) this.#files.set(path, stamp.text)
  }

  /** Undefined if the times of the files would not tell that one of them has changed. */
  get files(): Readonly<Record<string, string>> | undefined {
    return this.#isUsable ? Object.fromEntries(this.#files) : undefined
  }
}

/** Called when nothing was found. */
export function rememberPlain(
  home: Home,
  repo: Repository,
  { index, key }: Pick<WorkingList, 'index' | 'key'>,
  { files }: LookedAt,
  build: string | undefined = BUILD,
): void {
  if (build === undefined || files === undefined) return
  const seen: Seen = { build, index, list: key, files }
  try {
    // A file that is cut off is no JSON, and then nothing is remembered.
    writeFileSync(fileOf(home, repo), JSON.stringify(seen), { mode: 0o600 })
  } catch {
    // On a full disk, the next command looks again.
  }
}

/** All working trees of a repository share its directory. */
function fileOf(home: Home, repo: Repository): string {
  return join(projectDirectory(home, projectKey(repo)), `plain-${sha256Hex(repo.root).slice(0, 16)}.json`)
}

function readSeen(file: string): Seen | undefined {
  try {
    const seen = JSON.parse(readFileSync(file, 'utf8')) as Partial<Seen> | null
    const { build = '', index = '', list = '', files } = seen ?? {}
    return files && { build, index, list, files }
  } catch {
    return undefined
  }
}

/** Undefined for what is no file by itself: a link may lead to a file that changes. */
function stampOf(path: string): { readonly text: string; readonly isSettled: boolean } | undefined {
  const info = statOf(path)
  if (info === 'unknown') return undefined
  if (!info) return { text: 'none', isSettled: true }
  if (info.isSymbolicLink()) return undefined
  const { dev, ino, mode, size, mtimeNs, ctimeNs } = info
  return {
    text: [dev, ino, mode, size, mtimeNs, ctimeNs].join(' '),
    isSettled: Number(ctimeNs / 1_000_000n) + SETTLED_MS < systemClock.now(),
  }
}

function statOf(path: string): BigIntStats | 'unknown' | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return 'unknown'
  }
}
