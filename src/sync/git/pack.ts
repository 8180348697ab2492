/** A project's state as a pack of objects, without what the other side has. */
import type { Readable } from 'node:stream'
import { type GitOptions, git, gitReadable } from './git.ts'
import type { ObjectId, Repository } from './repository.ts'
import { scratchOptions } from './scratch.ts'
import type { ProjectState } from './state.ts'

/** A state that the inside was prepared with, and has every object of. */
export type KnownState = Pick<ProjectState, 'commit' | 'tree' | 'shallow'>

/**
 * Everything that the state's commit, as far back as its borders, and its tree are made of. The pack stands alone: no delta in it has its base
 * elsewhere. It may be without objects. Reading fails where an object is missing.
 *
 * Of a known state its trees count, and its history only where it is the same: another one may end elsewhere, and what is behind its borders
 * was never sent.
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
  // It goes to the same machine: looking for deltas takes longer than sending without.
  return gitReadable(args, { ...scratch, input: `${lines.join('\n')}\n`, settings: ['pack.compression=1'] })
}

function hasSameHistory(state: ProjectState, known: KnownState): boolean {
  return state.commit === known.commit && state.shallow.join() === known.shallow.join()
}

function wanted({ commit, tree }: Pick<ProjectState, 'commit' | 'tree'>): ObjectId[] {
  return commit === undefined ? [tree] : [commit, tree]
}

/** Those of a known state's objects that are here too: the tree of files that were not committed usually is not. */
async function presentOf(scratch: GitOptions, known: KnownState): Promise<ObjectId[]> {
  const ids = wanted(known)
  const answer = await git(['cat-file', '--batch-check'], { ...scratch, input: `${ids.join('\n')}\n` })
  const lines = answer.stdout.toString('latin1').split('\n')
  return ids.filter((_, i) => / (?:commit|tree) \d+$/.test(lines[i] ?? ''))
}
