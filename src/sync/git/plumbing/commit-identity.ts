/** Author and committer of our commits. */

import { replaceControls } from '../../../util/hidden-characters.ts'
import { git } from './git.ts'
import type { Repository } from './repository.ts'

const NOBODY = { name: 'AgentPod', email: 'agentpod@localhost' } as const

/**
 * Variables for git: the user as author and committer. If git has no name for the user, AgentPod's name is
 * used.
 */
export async function identityVariables(repo: Repository, now: number): Promise<Record<string, string>> {
  const { env } = repo
  const settings = await settingsOf(repo)
  const of = (who: 'author' | 'committer', what: 'name' | 'email'): string => {
    const given = env[`GIT_${who}_${what}`.toUpperCase()]
    const set = settings.get(`${who}.${what}`) ?? settings.get(`user.${what}`)
    return plain(given) || plain(set) || plain(what === 'email' ? env['EMAIL'] : undefined) || NOBODY[what]
  }
  const date = dateOf(now)
  return {
    GIT_AUTHOR_NAME: of('author', 'name'),
    GIT_AUTHOR_EMAIL: of('author', 'email'),
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: of('committer', 'name'),
    GIT_COMMITTER_EMAIL: of('committer', 'email'),
    GIT_COMMITTER_DATE: date,
  }
}

async function settingsOf({ root, env }: Repository): Promise<ReadonlyMap<string, string>> {
  const keys = '^(user|author|committer)\\.(name|email)$'
  const { stdout } = await git(['config', '-z', '--get-regexp', keys], { cwd: root, env })
  const lines = stdout.toString('utf8').split('\0')
  return new Map(lines.map((line) => [line.slice(0, line.indexOf('\n')), line.slice(line.indexOf('\n') + 1)]))
}

/** Drops characters that git strips; git fails on a name that has no others. */
function plain(text: string | undefined): string {
  const kept = replaceControls(text ?? '', ' ')
    .replaceAll(/[<>]/g, ' ')
    .trim()
  return /[^\s.,:;"'\\]/.test(kept) ? kept : ''
}

/** Unix seconds and the time zone of this machine, in git's format. */
export function dateOf(now: number): string {
  const minutes = -new Date(now).getTimezoneOffset()
  const zone = String(Math.trunc(Math.abs(minutes) / 60) * 100 + (Math.abs(minutes) % 60)).padStart(4, '0')
  return `@${Math.floor(now / 1000)} ${minutes < 0 ? '-' : '+'}${zone}`
}
