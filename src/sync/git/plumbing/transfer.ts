/**
 * Copies exactly the requested objects from a quarantine into the user's repository. Git checks them once
 * more.
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { diskFull } from './disk-full.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import { userGit } from './quarantine.ts'
import type { ObjectId, Repository } from './repository.ts'

export interface TransferOptions {
  readonly commits: readonly ObjectId[]
  readonly trees: readonly ObjectId[]
  /** A tree that the user's repository has already; its objects are not copied. */
  readonly without: ObjectId | undefined
}

/**
 * No ref points to the objects yet: if the process is killed, the repository is unchanged and git collects
 * them later.
 */
export async function transfer(repo: Repository, quarantine: GitOptions, o: TransferOptions): Promise<void> {
  const except = o.without === undefined ? [] : [`^${o.without}`]
  const args = ['rev-list', '--objects', '--no-object-names', '--stdin']
  const listed = await git(args, { ...quarantine, input: `${[...o.trees, ...except].join('\n')}\n` })
  if (listed.exitCode !== 0) throw gitFailed(args, listed)
  const begin = join(quarantine.cwd, 'transfer')
  const packed = await gitText(['pack-objects', '-q', begin], {
    ...quarantine,
    input: Buffer.concat([Buffer.from(o.commits.map((id) => `${id}\n`).join('')), listed.stdout]),
  }).catch((error: Error) => {
    throw diskFull(error.message) ?? error
  })
  const unpack = ['index-pack', '--stdin', '--strict']
  const answer = await git(unpack, { ...userGit(repo), input: createReadStream(`${begin}-${packed}.pack`) })
  if (answer.exitCode !== 0) throw diskFull(answer.stderr) ?? gitFailed(unpack, answer)
  await Promise.all(['pack', 'idx', 'rev'].map((end) => rm(`${begin}-${packed}.${end}`, { force: true })))
}
