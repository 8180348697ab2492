/** Objects from a quarantine into the user's repository: exactly those that were asked for, checked once more by git on their way. */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { diskFull } from './disk-full.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import { userGit } from './quarantine.ts'
import type { ObjectId, Repository } from './repository.ts'

export interface Shipment {
  readonly commits: readonly ObjectId[]
  readonly trees: readonly ObjectId[]
  /** A tree that the user's repository has; what is in it stays behind. */
  readonly without: ObjectId | undefined
}

/**
 * Nothing refers to them yet: who is killed here or later leaves objects that git removes one day, and a repository that is as it was.
 */
export async function transfer(repo: Repository, quarantine: GitOptions, o: Shipment): Promise<void> {
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
