/**
 * Reads the part of the user's git configuration that matters for reading a working copy: values, never
 * programs.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { git, gitFailed } from '../plumbing/git.ts'
import type { Repository } from '../plumbing/repository.ts'

export interface UserSettings {
  /** Settings of `core.` to copy into our configuration. */
  readonly core: ReadonlyMap<string, string>
  /** Names of filters that change a file when it is added. They are never run. */
  readonly filters: ReadonlySet<string>
  /** Whether this is a partial clone, in which objects may be missing. */
  readonly isPartial: boolean
}

/** How files are compared, and how line endings are converted. */
const WORDS = new Set([
  'core.filemode',
  'core.symlinks',
  'core.ignorecase',
  'core.autocrlf',
  'core.eol',
  'core.trustctime',
  'core.checkstat',
  'core.precomposeunicode',
  'core.sparsecheckout',
  'core.sparsecheckoutcone',
])
const PATHS = new Set(['core.excludesfile', 'core.attributesfile'])

export async function userSettings(repo: Repository): Promise<UserSettings> {
  const args = ['config', '--list', '-z']
  const answer = await git(args, { cwd: repo.root, env: repo.env })
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const core = new Map<string, string>()
  const filters = new Set<string>()
  let isPartial = false
  for (const entry of answer.stdout.toString('utf8').split('\0')) {
    const end = entry.indexOf('\n')
    // A key without a value means true.
    const [key, value] = end < 0 ? [entry, 'true'] : [entry.slice(0, end), entry.slice(end + 1)]
    if (WORDS.has(key) && /^[A-Za-z0-9]{1,16}$/.test(value)) core.set(key.slice('core.'.length), value)
    else if (PATHS.has(key)) core.set(key.slice('core.'.length), expanded(value, repo))
    const filter = /^filter\.(.*)\.(?:clean|process)$/s.exec(key)?.[1]
    if (filter !== undefined && value !== '') filters.add(filter)
    if (key === 'extensions.partialclone' || /^remote\..*\.promisor$/s.test(key)) isPartial = true
  }
  return { core, filters, isPartial }
}

function expanded(path: string, { root, env }: Repository): string {
  if (path === '') return ''
  return path.startsWith('~/') ? join(env['HOME'] ?? homedir(), path.slice(2)) : resolve(root, path)
}
