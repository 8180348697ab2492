/** Whether the user's git signs commits, which ours are not: AgentPod runs no program that a repository's settings name (GT-03). */
import { git } from '../sync/git/git.ts'
import { userGit } from '../sync/git/quarantine.ts'
import type { Repository } from '../sync/git/repository.ts'

/** A sentence for the user; undefined where there is nothing to say. `command` signs what was made. */
export async function unsignedNote(repo: Repository, command: string): Promise<string | undefined> {
  const answer = await git(['config', '--type=bool', '--get', 'commit.gpgsign'], userGit(repo))
  if (answer.stdout.toString('latin1').trim() !== 'true') return undefined
  return `commit.gpgsign is set, but AgentPod does not sign commits; to sign it: ${command}`
}
