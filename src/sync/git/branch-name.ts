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
  /** Of a follow-up: how many times the run was given something to do. */
  readonly turn?: number | undefined
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
  const begin = template.replaceAll(/\{(\w*)\}/g, (_, key: keyof BranchWords) => String(words[key]))
  const name = (words.turn ?? 1) > 1 ? `${begin}-turn-${words.turn}` : begin
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

/**
 * The first name that nobody has. Who makes the branch finds out if somebody was faster. The number of a run is its own, so a second branch of
 * it is a version; the number of a command is the branch's.
 */
export async function freeBranchName(
  repo: Repository,
  template: string,
  words: BranchWords,
  next: 'version' | 'number',
): Promise<string> {
  const taken = await branchesOf(repo)
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const name =
      next === 'number'
        ? branchName(template, { ...words, n: words.n + tries })
        : `${branchName(template, words)}${tries === 0 ? '' : `-v${tries + 1}`}`
    const clash = clashOf(name, taken)
    if (clash === undefined) return name
    if (prefixOf(template).toLowerCase().startsWith(`${clash.toLowerCase()}/`)) throw inTheWay(clash, name)
  }
  throw invalid(
    'branch.taken',
    `all names like ${branchName(template, words)} are taken`,
    '`agentpod branch clean` removes old ones',
  )
}

/** The highest number that a branch of an agent has by its name; 0 where there is none. */
export async function highestNumber(repo: Repository, template: string, agent: string): Promise<number> {
  const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const parts = template.split(/(\{\w*\})/).map((part) => {
    if (part === '{n}') return '(?<n>[0-9]{1,6})'
    return part === '{slug}' ? '.*' : literal(part === '{agent}' ? agent : part)
  })
  // A template may have a number twice; the first one counts.
  const first = parts.indexOf('(?<n>[0-9]{1,6})')
  const pattern = parts.map((part, i) => (part.startsWith('(?<n>') && i > first ? '[0-9]+' : part)).join('')
  const expression = new RegExp(`^${pattern}(?:-turn-[0-9]+)?(?:-v[0-9]+)?$`, 's')
  return Math.max(
    0,
    ...(await branchesOf(repo)).map((name) => Number(expression.exec(name)?.groups?.['n'] ?? 0)),
  )
}

/** Whether a branch could be made; `already_exists` names the one that is in the way of all of them. */
export async function checkTemplate(repo: Repository, template: string): Promise<void> {
  const name = branchName(template, { slug: 'run', agent: 'agent', n: 1 })
  const prefix = prefixOf(template).toLowerCase()
  const clash = (await branchesOf(repo)).find((one) => prefix.startsWith(`${one.toLowerCase()}/`))
  if (clash !== undefined) throw inTheWay(clash, name)
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
