/** Names of branches. */
import { AgentPodError, invalid } from '../../../core/error.ts'
import { git, gitFailed } from '../plumbing/git.ts'
import { userGit } from '../plumbing/quarantine.ts'
import type { Repository } from '../plumbing/repository.ts'

export const DEFAULT_BRANCH = 'agentpod/{slug}-{agent}-{n}'

export interface BranchWords {
  readonly slug: string
  readonly agent: string
  readonly n: number
  /** Number of the turn; above 1 for a follow-up. */
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

/** The name, checked against git's rules. `invalid_argument` says what is wrong with the template. */
export function branchName(template: string, words: BranchWords): string {
  prefixOf(template)
  const begin = template.replaceAll(/\{(\w*)\}/g, (_, key: keyof BranchWords) => String(words[key]))
  const name = (words.turn ?? 1) > 1 ? `${begin}-turn-${words.turn}` : begin
  const why = branchNameProblem(name)
  if (why !== undefined)
    throw badTemplate(template, `${JSON.stringify(name)} is not a valid branch name: ${why}`)
  return name
}

/** The directory of all branches of a template, with its slash; `invalid_argument` if there is none. */
export function prefixOf(template: string): string {
  for (const [, key = ''] of template.matchAll(/\{([^}]*)\}?/g))
    if (!PLACEHOLDERS.some((known) => known === key))
      throw badTemplate(template, `unknown placeholder {${key}}; use {slug}, {agent} and {n}`)
  if (!template.includes('{n}')) throw badTemplate(template, 'it has no {n} to tell runs apart')
  const fixed = template.slice(0, template.indexOf('{'))
  const prefix = fixed.slice(0, fixed.lastIndexOf('/') + 1)
  if (prefix === '') throw badTemplate(template, 'it does not start with a directory such as agentpod/')
  return prefix
}

/**
 * The first free name. Creating the branch fails if someone else takes the name first. A run keeps its
 * number, so a second branch of it gets a version; a branch of a command gets the next number.
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
    const clash = clashingBranch(name, taken)
    if (clash === undefined) return name
    if (prefixOf(template).toLowerCase().startsWith(`${clash.toLowerCase()}/`))
      throw branchInTheWay(clash, name)
  }
  throw invalid(
    'branch.taken',
    `all branch names like ${branchName(template, words)} are taken`,
    '`agentpod branch clean` removes old ones',
  )
}

/** The highest number in the names of an agent's branches; 0 if there is none. */
export async function highestNumber(repo: Repository, template: string, agent: string): Promise<number> {
  const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const parts = template.split(/(\{\w*\})/).map((part) => {
    if (part === '{n}') return '(?<n>[0-9]{1,6})'
    return part === '{slug}' ? '.*' : literal(part === '{agent}' ? agent : part)
  })
  // A template may contain {n} twice; the first one counts.
  const first = parts.indexOf('(?<n>[0-9]{1,6})')
  const pattern = parts.map((part, i) => (part.startsWith('(?<n>') && i > first ? '[0-9]+' : part)).join('')
  const expression = new RegExp(`^${pattern}(?:-turn-[0-9]+)?(?:-v[0-9]+)?$`, 's')
  return Math.max(
    0,
    ...(await branchesOf(repo)).map((name) => Number(expression.exec(name)?.groups?.['n'] ?? 0)),
  )
}

/** Checks that branches can be created. `already_exists` names the branch that blocks all of them. */
export async function checkTemplate(repo: Repository, template: string): Promise<void> {
  const name = branchName(template, { slug: 'run', agent: 'agent', n: 1 })
  const prefix = prefixOf(template).toLowerCase()
  const clash = (await branchesOf(repo)).find((one) => prefix.startsWith(`${one.toLowerCase()}/`))
  if (clash !== undefined) throw branchInTheWay(clash, name)
}

/**
 * The branch that prevents this one: it has the same name, or one name is a directory of the other. Names
 * that differ only in case are the same on some disks.
 */
export function clashingBranch(name: string, taken: readonly string[]): string | undefined {
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
  // The current branch is taken, even before its first commit.
  return [...names.map((ref) => ref.slice('refs/heads/'.length)), ...(repo.branch ? [repo.branch] : [])]
}

/** Why git would refuse the name, by the rules of `git check-ref-format --branch`, or that it is too long. */
export function branchNameProblem(name: string): string | undefined {
  if (name === '' || Buffer.byteLength(name) > LONGEST_NAME) return 'it is empty or too long'
  if (/[\p{C}\p{Z}~^:?*[\\]/u.test(name)) return 'it contains a character that git does not allow'
  if (name.startsWith('-')) return 'it starts with a dash'
  if (name.includes('..') || name.includes('@{') || name === '@' || name === 'HEAD')
    return 'it has a special meaning in git'
  const parts = name.split('/')
  if (parts.some((part) => part === '')) return 'a part of it is empty'
  if (parts.some((part) => part.startsWith('.') || part.endsWith('.') || /\.lock$/i.test(part)))
    return 'a part of it starts or ends with a dot, or ends in .lock'
  return undefined
}

export function branchInTheWay(clash: string, name: string): AgentPodError {
  return new AgentPodError({
    code: 'already_exists',
    reason: 'branch.in_the_way',
    message: `the branch ${name} cannot be created, because there is a branch ${clash}`,
    hint: `rename it (git branch -m ${clash} NEW), or use another branch template`,
  })
}

function badTemplate(template: string, why: string): AgentPodError {
  return invalid(
    'branch.template',
    `the branch template ${JSON.stringify(template)} is invalid: ${why}`,
    `for example ${DEFAULT_BRANCH}`,
  )
}
