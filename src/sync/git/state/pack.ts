/** Packs a project's state, without the objects that the sandbox already has. */
import type { Readable } from 'node:stream'
import { type GitOptions, git, gitReadable } from '../plumbing/git.ts'
import type { ObjectId, Repository } from '../plumbing/repository.ts'
import type { ProjectState } from './project-state.ts'
import { scratchOptions } from './scratch-repository.ts'

/** A state that the sandbox was prepared with: it has every object of it. */
export type KnownState = Pick<ProjectState, 'commit' | 'tree' | 'shallow'>

/**
 * All objects of the state's tree and of its history up to the shallow boundary. The pack is self-contained:
 * no delta has its base elsewhere. It may be empty. Reading it fails if an object is missing.
 *
 * The trees of a known state are left out. Its history is left out only if it is the same: another history
 * may have another boundary, and objects behind that were never sent.
 */
export async function packOf(
  repo: Repository,
  state: ProjectState,
  known: KnownState | undefined,
): Promise<Readable> {
  const scratch = scratchOptions(repo, state.scratch)
  const has = known === undefined ? [] : await presentOf(scratch, known)
  const lines = [
    ...(known !== undefined && hasSameHistory(state, known) ? [state.tree] : wanted(state)),
    ...has.map((id) => `^${id}^{tree}`),
  ]
  const args = [
    'pack-objects',
    '--revs',
    '--stdout',
    '--delta-base-offset',
    '--no-sparse',
    '--window=0',
    '-q',
  ]
  // The pack stays on this machine: searching for deltas takes longer than sending without them.
  return gitReadable(args, { ...scratch, input: `${lines.join('\n')}\n`, settings: ['pack.compression=1'] })
}

function hasSameHistory(state: ProjectState, known: KnownState): boolean {
  return state.commit === known.commit && state.shallow.join() === known.shallow.join()
}

function wanted({ commit, tree }: Pick<ProjectState, 'commit' | 'tree'>): ObjectId[] {
  return commit === undefined ? [tree] : [commit, tree]
}

/** The objects of a known state that exist here. The tree of uncommitted files usually does not. */
async function presentOf(scratch: GitOptions, known: KnownState): Promise<ObjectId[]> {
  const ids = wanted(known)
  const answer = await git(['cat-file', '--batch-check'], { ...scratch, input: `${ids.join('\n')}\n` })
  const lines = answer.stdout.toString('latin1').split('\n')
  return ids.filter((_, i) => / (?:commit|tree) \d+$/.test(lines[i] ?? ''))
}
