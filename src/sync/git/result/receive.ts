/**
 * Receives the result of a run: unpacks it into a quarantine, checks it and finds the changes. Nothing of it
 * is in the user's repository after this, and nothing is checked out.
 */
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { isAgentPodError } from '../../../core/error.ts'
import { replaceHidden } from '../../../util/hidden-characters.ts'
import type { GatedFile } from '../gate/gate.ts'
import { gateResult, readGateContext } from '../gate/gate-result.ts'
import { displayName } from '../plumbing/byte-names.ts'
import { compareTrees, type TreeChange } from '../plumbing/compare-trees.ts'
import { type ChangedFile, changesOf } from '../plumbing/diff.ts'
import { diskFull } from '../plumbing/disk-full.ts'
import { editTree } from '../plumbing/edit-tree.ts'
import { type GitOptions, git } from '../plumbing/git.ts'
import { objectInfo } from '../plumbing/objects.ts'
import { openQuarantine } from '../plumbing/quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../plumbing/repository.ts'
import { inspectResult, resultRefused } from './inspect.ts'
import { lfsNotes } from './lfs-note.ts'

const LARGEST_PACK = 2 * 1024 * 1024 * 1024
/** Higher than the limit for a file in the sandbox, which is applied before anything is compressed. */
const LARGEST_FILE = 128 * 1024 * 1024
const UNPACK_MS = 10 * 60_000

export interface ReceiveOptions {
  /** The tree that the run began with. */
  readonly tree: ObjectId
  readonly commit: ObjectId | undefined
  /** The resulting tree, as the header names it. */
  readonly expected: string
  /** The pack, or the path of its file. */
  readonly pack: Readable | string
  /** A directory of the caller that exists as long as the received result is used. */
  readonly scratch: string
  /** Directories with objects of the start that are not in the user's repository. */
  readonly alsoObjects?: readonly string[] | undefined
  readonly largestPackBytes?: number | undefined
  readonly timeoutMs?: number | undefined
}

export interface Received {
  readonly commit: ObjectId | undefined
  readonly from: ObjectId
  readonly tree: ObjectId
  readonly changes: readonly ChangedFile[]
  readonly treeChanges: readonly TreeChange[]
  /** Changed files that tools run later on the host, and that the user has to approve. */
  readonly gate: readonly GatedFile[]
  /** Notes for the user: what was left out, and names that clash on other file systems. */
  readonly notes: readonly string[]
  /** Options to run git in the quarantine. */
  readonly quarantine: GitOptions
}

/** `data_loss` with reason `result.refused` if anything about the result is not acceptable. */
export async function receiveResult(repo: Repository, o: ReceiveOptions): Promise<Received> {
  if (!OBJECT_ID.test(o.expected)) throw resultRefused('its header names no tree')
  const quarantine = await openQuarantine(repo, o.scratch, o.alsoObjects)
  await unpack(quarantine, o)
  try {
    return await look(repo, quarantine, o)
  } catch (error) {
    // A tree is missing or malformed: the pack was incomplete.
    if (isAgentPodError(error) && error.reason.startsWith('tree.')) throw resultRefused(error.message, error)
    throw error
  }
}

/** Inspects the changes of an existing branch of ours, as if they had just arrived. */
export async function inspectBranch(
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
    diskFull(answer.stderr) ??
    resultRefused(answer.exitCode === 0 ? 'there are bytes after the pack' : wordsOf(answer.stderr))
  )
}

async function look(
  repo: Repository,
  quarantine: GitOptions,
  o: Pick<ReceiveOptions, 'tree' | 'commit' | 'expected'>,
): Promise<Received> {
  // Listing a large tree takes long, so it begins now. If something else fails first, nothing waits for it.
  const early = readGateContext(repo, quarantine, o.expected)
  early.catch(() => undefined)
  const all = await compareTrees(quarantine, o.tree, o.expected, inspectResult)
  await checkBlobs(quarantine, all)
  const unreadable = all.filter(({ isText }) => !isText)
  const edits = unreadable.map(({ raw, before }) => ({ raw, leaf: before }))
  const tree = await editTree(quarantine, o.expected, edits)
  const treeChanges = all.filter(({ isText }) => isText)
  const changes = await changesOf(quarantine, o.tree, tree, treeChanges)
  const context = tree === o.expected ? early : readGateContext(repo, quarantine, tree)
  const { gate, notes } = await gateResult(quarantine, treeChanges, await context)
  return {
    commit: o.commit,
    from: o.tree,
    tree,
    changes,
    treeChanges,
    gate,
    notes: [
      ...unreadable.map(({ raw }) => `${displayName(raw)} was left out: its name is not UTF-8`),
      ...notes,
      ...(await lfsNotes(repo, quarantine, treeChanges)),
    ],
    quarantine,
  }
}

/** SECURITY: an entry may name an object that is not a file, is missing, or does not fit into memory. */
async function checkBlobs(quarantine: GitOptions, changes: readonly TreeChange[]): Promise<void> {
  const wanted = changes.flatMap(({ after }) => (after ? [after.id] : []))
  const found = await objectInfo(quarantine, wanted)
  for (const { raw, after } of changes) {
    if (!after) continue
    const info = found.get(after.id)
    if (info?.type !== 'blob') throw resultRefused(`${displayName(raw)} has no content`)
    if (info.sizeBytes > LARGEST_FILE)
      throw resultRefused(`${displayName(raw)} is larger than ${LARGEST_FILE / 2 ** 20} MiB`)
  }
}

function wordsOf(stderr: string): string {
  const line = stderr
    .trim()
    .split('\n')
    .findLast((text) => /^(?:fatal|error):/.test(text))
  return line === undefined ? 'git could not read it' : `git reports ${replaceHidden(line.slice(0, 300))}`
}
