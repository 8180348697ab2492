/** Submodules: repositories that the project names by commit. */
import { lstatSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import { isAgentPodError } from '../../../core/error.ts'
import { displayName } from '../plumbing/byte-names.ts'
import { type GitOptions, git, gitFailed } from '../plumbing/git.ts'
import { type ObjectId, openRepository, type Repository } from '../plumbing/repository.ts'
import type { IndexLink } from './read-index.ts'

export interface SubmoduleLink {
  readonly path: string
  /** The commit that the project records. */
  readonly commit: ObjectId
}

const LINK = '160000 '

export interface FoundLinks {
  readonly links: readonly SubmoduleLink[]
  readonly notes: readonly string[]
}

/** Submodules of a commit, or of the index if no commit is given. */
export async function submoduleLinks(o: GitOptions, commit?: ObjectId): Promise<FoundLinks> {
  const args =
    commit === undefined ? ['ls-files', '--stage', '-z'] : ['ls-tree', '-r', '-z', '--full-tree', commit]
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  return linksOf(
    [...entriesOf(answer.stdout)].map((entry) => ({
      path: entry.subarray(entry.indexOf('\t') + 1),
      commit: /[0-9a-f]{40}/.exec(entry.toString('latin1'))?.[0] ?? '',
    })),
  )
}

/** Links whose names are plain text, and notes about the others. */
export function linksOf(found: readonly IndexLink[]): FoundLinks {
  const [links, notes]: [Map<string, SubmoduleLink>, string[]] = [new Map(), []]
  for (const { path, commit } of found) {
    const text = path.toString('utf8')
    // A name that is not UTF-8, or has a control character, cannot be passed to the script in the sandbox.
    if (!Buffer.from(text).equals(path) || /\p{Cc}/u.test(text))
      notes.push(
        `the submodule ${displayName(path.toString('latin1'))} stays empty: its name is not plain text`,
      )
    else links.set(text, { path: text, commit })
  }
  return { links: [...links.values()], notes }
}

/** Most repositories have many entries and no submodule: only submodules are decoded. */
function* entriesOf(output: Buffer): Generator<Buffer> {
  for (let start = output.indexOf(LINK); start >= 0; start = output.indexOf(LINK, start)) {
    const end = output.indexOf(0, start)
    if (start === 0 || output[start - 1] === 0) yield output.subarray(start, end)
    start = end < 0 ? output.length : end
  }
}

/** Undefined if it was not fetched or is not a submodule. */
export async function openSubmodule(top: Repository, path: string): Promise<Repository | undefined> {
  const root = join(top.root, path)
  if (!lstatSync(join(root, '.git'), { throwIfNoEntry: false })) return undefined
  try {
    const repo = await openRepository(root, top.env)
    const isItself = repo.root === realpathSync(root) && repo.root === root
    // SECURITY: its `.git` file may name any repository of this machine, which would then be copied into the
    // sandbox.
    const isOurs = isWithin(top.commonDir, repo.commonDir) || isWithin(root, repo.commonDir)
    return isItself && isOurs ? repo : undefined
  } catch (error) {
    if (isAgentPodError(error)) return undefined
    throw error
  }
}

function isWithin(directory: string, path: string): boolean {
  return path.startsWith(directory + sep)
}
