/**
 * Files that a filter would change when they are added. Filters are programs and are not run, so the content
 * that such a file would have in the repository is unknown, with one exception: Git LFS pointers name the
 * content.
 */
import { createHash } from 'node:crypto'
import { createReadStream, lstatSync } from 'node:fs'
import { type ByteName, byteNames, bytePath, displayName, nulTerminated } from '../plumbing/byte-names.ts'
import { type GitOptions, git, gitFailed } from '../plumbing/git.ts'
import type { UserSettings } from './user-settings.ts'
import type { Differences } from './working-copy.ts'

export const LFS = 'lfs'
export const POINTER_BYTES = 1024
export const POINTER =
  /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,16})\n/

/**
 * The differences without those that filters make. SECURITY: an unknown filter may keep something out of the
 * repository, such as the plain text of an encrypted file. We must not commit it, so such a file stays as the
 * index has it.
 */
export async function withoutFiltered(
  o: GitOptions,
  settings: UserSettings,
  found: Differences,
): Promise<Differences> {
  if (settings.filters.size === 0 || found.present.length === 0) return found
  const filterOf = await filtersOf(o, found.present)
  const [present, notes]: [ByteName[], string[]] = [[], [...found.notes]]
  for (const name of found.present) {
    const filter = filterOf.get(name)
    if (filter === undefined || !settings.filters.has(filter)) present.push(name)
    else if (filter !== LFS) notes.push(leftOut(name, filter, found))
    else if (found.untracked.has(name) || !(await isPointedAt(o, name))) {
      present.push(name)
      notes.push(`${displayName(name)} is a Git LFS file with uncommitted changes: its content was copied`)
    }
  }
  return { ...found, present, notes }
}

function leftOut(name: ByteName, filter: string, { untracked }: Differences): string {
  const what = untracked.has(name)
    ? `${displayName(name)} was left out`
    : `${displayName(name)} was copied as it was last added`
  return `${what}: it uses the filter ${displayName(filter)}, which agentpod does not run`
}

export async function filtersOf(o: GitOptions, names: readonly ByteName[]): Promise<Map<ByteName, string>> {
  const args = ['check-attr', '-z', '--stdin', 'filter']
  const answer = await git(args, { ...o, input: nulTerminated(names) })
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const fields = byteNames(answer.stdout)
  const found = new Map<ByteName, string>()
  for (let i = 0; i + 2 < fields.length; i += 3)
    found.set(fields[i] ?? '', Buffer.from(fields[i + 2] ?? '', 'latin1').toString('utf8'))
  return found
}

/** Whether the pointer in the index names the content of the file. */
async function isPointedAt(o: GitOptions, name: ByteName): Promise<boolean> {
  const blob = await git(['cat-file', 'blob', `:0:${Buffer.from(name, 'latin1').toString('utf8')}`], {
    ...o,
    maxBytes: POINTER_BYTES,
  })
  const [, digest, size] = POINTER.exec(blob.stdout.toString('latin1')) ?? []
  if (digest === undefined) return false
  try {
    const path = bytePath(o.cwd, name)
    const info = lstatSync(path)
    return info.isFile() && info.size === Number(size) && (await sha256(path)) === digest
  } catch {
    return false
  }
}

async function sha256(path: Buffer): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of createReadStream(path)) hash.update(part as Buffer)
  return hash.digest('hex')
}
