/**
 * Whether the user's git signs commits. AgentPod does not: it runs no program that a repository's settings
 * name (GT-03).
 */
import { git } from '../../sync/git/plumbing/git.ts'
import { userGit } from '../../sync/git/plumbing/quarantine.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'

/**
 * A sentence for a user whose git signs commits, with the command that signs this one. Undefined for others.
 */
export async function unsignedNote(repo: Repository, command: string): Promise<string | undefined> {
  const answer = await git(['config', '--type=bool', '--get', 'commit.gpgsign'], userGit(repo))
  if (answer.stdout.toString('latin1').trim() !== 'true') return undefined
  return `commit.gpgsign is set, but AgentPod does not sign commits; to sign it: ${command}`
}
