/** Repositories inside the repository that it names by commit. */
import { lstatSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import { isAgentPodError } from '../../core/error.ts'
import { type GitOptions, git, gitFailed } from './git.ts'
import { shown } from './names.ts'
import { type ObjectId, openRepository, type Repository } from './repository.ts'

export interface Link {
  readonly path: string
  /** The commit that is recorded for it. */
  readonly commit: ObjectId
}

const LINK = '160000 '

/** Those in a commit, or in the index where none is given. */
export async function linksOf(o: GitOptions, commit?: ObjectId): Promise<{ links: Link[]; notes: string[] }> {
  const args =
    commit === undefined ? ['ls-files', '--stage', '-z'] : ['ls-tree', '-r', '-z', '--full-tree', commit]
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const [links, notes]: [Map<string, Link>, string[]] = [new Map(), []]
  for (const entry of entriesOf(answer.stdout)) {
    const path = entry.subarray(entry.indexOf('\t') + 1)
    const id = /[0-9a-f]{40}/.exec(entry.toString('latin1'))?.[0] ?? ''
    const text = path.toString('utf8')
    // A name that is not text, or has a line end, cannot be told to the inside.
    if (!Buffer.from(text).equals(path) || /\p{Cc}/u.test(text))
      notes.push(`the submodule ${shown(path.toString('latin1'))} stays empty: its name is not plain text`)
    else links.set(text, { path: text, commit: id })
  }
  return { links: [...links.values()], notes }
}

/** Most repositories have tens of thousands of entries and no link: only those are turned into text. */
function* entriesOf(output: Buffer): Generator<Buffer> {
  for (let start = output.indexOf(LINK); start >= 0; start = output.indexOf(LINK, start)) {
    const end = output.indexOf(0, start)
    if (start === 0 || output[start - 1] === 0) yield output.subarray(start, end)
    start = end < 0 ? output.length : end
  }
}

/** Undefined where it was not fetched, or is not one. */
export async function openSubmodule(top: Repository, path: string): Promise<Repository | undefined> {
  const root = join(top.root, path)
  if (!lstatSync(join(root, '.git'), { throwIfNoEntry: false })) return undefined
  try {
    const repo = await openRepository(root, top.env)
    const isItself = repo.root === realpathSync(root) && repo.root === root
    // SECURITY: its `.git` may name any repository of this machine, whose content would go in.
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
