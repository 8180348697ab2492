/** What of the user's git configuration counts for reading a working copy: values, never programs. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { git, gitFailed } from './git.ts'
import type { Repository } from './repository.ts'

export interface UserSettings {
  /** Settings of `core.` for a configuration of ours. */
  readonly core: ReadonlyMap<string, string>
  /** Names of filters that would change a file on its way into the repository. They are never run. */
  readonly filters: ReadonlySet<string>
  /** Whether objects may be missing that git would fetch when it needs them. */
  readonly isPartial: boolean
}

/** How files are told apart and compared, and how line ends are turned. */
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
    // A key without a value means yes.
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
