/**
 * The result of a run on its way into the user's repository: unpacked into a quarantine, checked, and told apart. Nothing of it is in the
 * user's repository after this, and nothing is checked out.
 */
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { isAgentPodError } from '../../core/error.ts'
import { replaceHidden } from '../../util/hidden-characters.ts'
import { changesOf, type FileChange } from './diff.ts'
import { diskFull } from './disk-full.ts'
import type { GatedFile } from './gate.ts'
import { gateResult } from './gate-result.ts'
import { type GitOptions, git } from './git.ts'
import { inspectResult, refused } from './inspect.ts'
import { lfsNotes } from './lfs-note.ts'
import { shown } from './names.ts'
import { objectInfo } from './objects.ts'
import { openQuarantine } from './quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from './repository.ts'
import { compareTrees, type TreeChange } from './tree-changes.ts'
import { editTree } from './tree-edit.ts'

const LARGEST_PACK = 2 * 1024 * 1024 * 1024
/** More than a file may have inside, which is counted before anything is compressed. */
const LARGEST_FILE = 128 * 1024 * 1024
const UNPACK_MS = 10 * 60_000

export interface ReceiveOptions {
  /** What the run began with. */
  readonly tree: ObjectId
  readonly commit: ObjectId | undefined
  /** What the header says that came of it. */
  readonly expected: string
  /** The pack, or the file it is in. */
  readonly pack: Readable | string
  /** A directory of the caller's, which lives as long as what is received is used. */
  readonly scratch: string
  /** Where the objects of the start are, if they are not in the user's repository. */
  readonly alsoObjects?: readonly string[] | undefined
  readonly largestPackBytes?: number | undefined
  readonly timeoutMs?: number | undefined
}

export interface Received {
  readonly commit: ObjectId | undefined
  readonly from: ObjectId
  readonly tree: ObjectId
  readonly changes: readonly FileChange[]
  readonly treeChanges: readonly TreeChange[]
  /** Those of the changes that are run later on the host, and need a yes. */
  readonly gate: readonly GatedFile[]
  /** For people: what was left out, and what may surprise on another file system. */
  readonly notes: readonly string[]
  /** Git in the quarantine. */
  readonly quarantine: GitOptions
}

/** `data_loss` with reason `result.refused` where anything about it is not as it must be. */
export async function receive(repo: Repository, o: ReceiveOptions): Promise<Received> {
  if (!OBJECT_ID.test(o.expected)) throw refused('it names no tree')
  const quarantine = await openQuarantine(repo, o.scratch, o.alsoObjects)
  await unpack(quarantine, o)
  try {
    return await look(repo, quarantine, o)
  } catch (error) {
    // What was to be looked at is not there or is no tree: the pack was not whole.
    if (isAgentPodError(error) && error.reason.startsWith('tree.')) throw refused(error.message, error)
    throw error
  }
}

/** What a branch of ours changes, looked at as if it had just arrived. */
export async function lookAt(
  repo: Repository,
  o: Pick<ReceiveOptions, 'tree' | 'commit' | 'expected' | 'scratch'>,
): Promise<Received> {
  const quarantine = await openQuarantine(repo, o.scratch)
  return look(repo, quarantine, o)
}

async function unpack(quarantine: GitOptions, o: ReceiveOptions): Promise<void> {
  const mostBytes = o.largestPackBytes ?? LARGEST_PACK
  const answer = await git(['index-pack', '--stdin', '--strict', `--max-input-size=${mostBytes}`], {
    ...quarantine,
    input: typeof o.pack === 'string' ? createReadStream(o.pack) : o.pack,
    timeoutMs: o.timeoutMs ?? UNPACK_MS,
    maxBytes: 1024,
  })
  if (answer.exitCode === 0 && /^(?:pack|keep)\t[0-9a-f]{40}\n$/.test(answer.stdout.toString('latin1')))
    return
  throw (
    diskFull(answer.stderr) ?? refused(answer.exitCode === 0 ? 'the pack has a tail' : wordsOf(answer.stderr))
  )
}

async function look(
  repo: Repository,
  quarantine: GitOptions,
  o: Pick<ReceiveOptions, 'tree' | 'commit' | 'expected'>,
): Promise<Received> {
  const all = await compareTrees(quarantine, o.tree, o.expected, inspectResult)
  await checkBlobs(quarantine, all)
  const unreadable = all.filter(({ isText }) => !isText)
  const edits = unreadable.map(({ raw, before }) => ({ raw, leaf: before }))
  const tree = await editTree(quarantine, o.expected, edits)
  const treeChanges = all.filter(({ isText }) => isText)
  const changes = await changesOf(quarantine, o.tree, tree, treeChanges)
  const { gate, notes } = await gateResult(repo, quarantine, tree, treeChanges)
  return {
    commit: o.commit,
    from: o.tree,
    tree,
    changes,
    treeChanges,
    gate,
    notes: [
      ...unreadable.map(({ raw }) => `${shown(raw)} was left out: its name is not UTF-8`),
      ...notes,
      ...(await lfsNotes(repo, quarantine, treeChanges)),
    ],
    quarantine,
  }
}

/** SECURITY: a tree may name as a file what is none, what is not there, or what nobody can hold in memory. */
async function checkBlobs(quarantine: GitOptions, changes: readonly TreeChange[]): Promise<void> {
  const wanted = changes.flatMap(({ after }) => (after ? [after.id] : []))
  const found = await objectInfo(quarantine, wanted)
  for (const { raw, after } of changes) {
    if (!after) continue
    const info = found.get(after.id)
    if (info?.type !== 'blob') throw refused(`${shown(raw)} has no content`)
    if (info.sizeBytes > LARGEST_FILE)
      throw refused(`${shown(raw)} has more than ${LARGEST_FILE / 2 ** 20} MiB`)
  }
}

function wordsOf(stderr: string): string {
  const line = stderr
    .trim()
    .split('\n')
    .findLast((text) => /^(?:fatal|error):/.test(text))
  return `git says ${replaceHidden((line ?? 'nothing').slice(0, 300))}`
}
