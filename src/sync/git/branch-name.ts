/** What a branch of a run is called. */
import { AgentPodError, invalid } from '../../core/error.ts'
import { git, gitFailed } from './git.ts'
import { userGit } from './quarantine.ts'
import type { Repository } from './repository.ts'

export const DEFAULT_BRANCH = 'agentpod/{slug}-{agent}-{n}'

export interface BranchWords {
  readonly slug: string
  readonly agent: string
  readonly n: number
}

const LONGEST_NAME = 200
const LONGEST_SLUG = 40
const MOST_TRIES = 10_000
const PLACEHOLDERS = ['slug', 'agent', 'n'] as const

/** A few words of a prompt: lower-case letters, digits and dashes. */
export function slugOf(prompt: string): string {
  const words = prompt
    .slice(0, 1000)
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .match(/[a-z0-9]+/g)
  let slug = ''
  for (const word of words ?? []) {
    if (slug.length + word.length >= LONGEST_SLUG) break
    slug += slug === '' ? word : `-${word}`
  }
  return slug || words?.[0]?.slice(0, LONGEST_SLUG) || 'run'
}

/** The name, checked by git's rules; `invalid_argument` says what is wrong with the template. */
export function branchName(template: string, words: BranchWords): string {
  prefixOf(template)
  const name = template.replaceAll(/\{(\w*)\}/g, (_, key: keyof BranchWords) => String(words[key]))
  const why = badRef(name)
  if (why !== undefined)
    throw badTemplate(template, `${JSON.stringify(name)} is no name for a branch: ${why}`)
  return name
}

/** The directory that all branches of a template are in, with its slash; `invalid_argument` where they are in none. */
export function prefixOf(template: string): string {
  for (const [, key = ''] of template.matchAll(/\{([^}]*)\}?/g))
    if (!PLACEHOLDERS.some((known) => known === key))
      throw badTemplate(template, `there is no {${key}}; known are {slug}, {agent} and {n}`)
  if (!template.includes('{n}')) throw badTemplate(template, 'it has no {n} to tell one run from the next')
  const fixed = template.slice(0, template.indexOf('{'))
  const prefix = fixed.slice(0, fixed.lastIndexOf('/') + 1)
  if (prefix === '') throw badTemplate(template, 'it does not begin with a directory, such as agentpod/')
  return prefix
}

/** The first name from `n` on that nobody has. Who makes the branch finds out if somebody was faster. */
export async function freeBranchName(
  repo: Repository,
  template: string,
  words: BranchWords,
): Promise<{ readonly name: string; readonly n: number }> {
  const taken = await branchesOf(repo)
  for (let n = words.n; n < words.n + MOST_TRIES; n++) {
    const name = branchName(template, { ...words, n })
    const clash = clashOf(name, taken)
    if (clash === undefined) return { name, n }
    if (prefixOf(template).toLowerCase().startsWith(`${clash.toLowerCase()}/`)) throw inTheWay(clash, name)
  }
  throw invalid(
    'branch.taken',
    `all names like ${branchName(template, words)} are taken`,
    '`agentpod branch clean` removes old ones',
  )
}

/**
 * The branch that keeps this one from being made: of the same name, or of one that is a directory to the other. Names that differ in case
 * alone are one name on some disks.
 */
export function clashOf(name: string, taken: readonly string[]): string | undefined {
  const low = name.toLowerCase()
  return taken.find((one) => {
    const other = one.toLowerCase()
    return other === low || other.startsWith(`${low}/`) || low.startsWith(`${other}/`)
  })
}

async function branchesOf(repo: Repository): Promise<string[]> {
  const args = ['for-each-ref', '--format=%(refname)', 'refs/heads/']
  const answer = await git(args, userGit(repo))
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const names = answer.stdout.toString('utf8').split('\n').filter(Boolean)
  // The branch that HEAD is on is taken, also before its first commit.
  return [...names.map((ref) => ref.slice('refs/heads/'.length)), ...(repo.branch ? [repo.branch] : [])]
}

/** Why git would not have it, after `git check-ref-format --branch`; and it is kept short. */
export function badRef(name: string): string | undefined {
  if (name === '' || Buffer.byteLength(name) > LONGEST_NAME) return 'it is empty or too long'
  if (/[\p{C}\p{Z}~^:?*[\\]/u.test(name)) return 'it has a character that git does not take'
  if (name.startsWith('-')) return 'it begins with a dash'
  if (name.includes('..') || name.includes('@{') || name === '@' || name === 'HEAD')
    return 'it means something else to git'
  const parts = name.split('/')
  if (parts.some((part) => part === '')) return 'a part of it is empty'
  if (parts.some((part) => part.startsWith('.') || part.endsWith('.') || /\.lock$/i.test(part)))
    return 'a part of it begins or ends with a dot, or ends in .lock'
  return undefined
}

export function inTheWay(clash: string, name: string): AgentPodError {
  return new AgentPodError({
    code: 'already_exists',
    reason: 'branch.in_the_way',
    message: `the branch ${clash} is in the way of ${name}`,
    hint: `rename it (git branch -m ${clash} NEW), or choose another template for branches`,
  })
}

function badTemplate(template: string, why: string): AgentPodError {
  return invalid(
    'branch.template',
    `the template for branches ${JSON.stringify(template)} is of no use: ${why}`,
    `such as ${DEFAULT_BRANCH}`,
  )
}
