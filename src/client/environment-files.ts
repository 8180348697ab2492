/** Packs local files for a step of an environment that is written in code. */
import { lstatSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, normalize, resolve } from 'node:path'
import { AgentPodError, invalid } from '../core/error.ts'
import { listProject } from '../sync/project-files.ts'
import { packContents } from '../sync/tar.ts'
import { readInside } from '../util/file/read-inside.ts'
import { sha256Hex } from '../util/sha256.ts'

/** All files of one `copy` together. The archive is made in memory. */
const MOST_BYTES = 512 * 1024 * 1024
const MOST_FILES = 10_000

export interface PackedInput {
  readonly archive: Buffer
  readonly digest: string
  readonly entries: Readonly<Record<string, string>>
  /** What to copy below the place where the archive is unpacked. */
  readonly from: string
}

type Content = Parameters<typeof packContents>[0][number]

/**
 * A directory, without what git ignores in it and without `.git`, or one file. The archive depends only on
 * names, contents and whether a file is executable.
 */
export async function packInput(
  path: string,
  o: { readonly env: Readonly<Record<string, string | undefined>> },
): Promise<PackedInput> {
  const full = resolve(path)
  const info = lstatSync(full, { throwIfNoEntry: false })
  if (!info) throw missing(path)
  const isDirectory = info.isDirectory()
  const root = realpathSync(isDirectory ? full : dirname(full))
  const names = isDirectory
    ? await listProject({ directory: root, exclude: [], env: o.env })
    : [basename(full)]
  if (names.length > MOST_FILES)
    throw invalid('copy.files', `${path} has more than ${MOST_FILES} files`, 'copy a smaller directory')
  const contents = names.flatMap((name) => contentOf(root, name))
  const bytes = contents.reduce((sum, { data }) => sum + data.length, 0)
  if (bytes > MOST_BYTES) throw tooLarge(path)
  const archive = packContents(contents.map((one) => ({ ...one, path: `files/${one.path}` })))
  return {
    archive,
    digest: sha256Hex(archive),
    entries: Object.fromEntries(contents.map((one) => [one.path, sha256Hex(one.data).slice(0, 16)])),
    from: isDirectory ? 'files' : `files/${basename(full)}`,
  }
}

function contentOf(root: string, name: string): Content[] {
  const info = lstatSync(join(root, name), { throwIfNoEntry: false })
  if (!info || info.isDirectory()) return []
  if (info.isSymbolicLink()) {
    const target = readlinkSync(join(root, name))
    const leads = normalize(join(dirname(name), target))
    if (target.startsWith('/') || leads === '..' || leads.startsWith('../'))
      throw invalid(
        'copy.link',
        `${name} is a link to ${JSON.stringify(target)}, which is outside the directory that is copied`,
        'copy the file it leads to, or remove the link',
      )
    return [{ path: name, data: Buffer.from(target), isExecutable: false, isLink: true }]
  }
  const read = readInside(root, name, MOST_BYTES)
  if (read) return [{ path: name, ...read }]
  if (info.isFile() && info.size > MOST_BYTES) throw tooLarge(name)
  throw invalid('copy.unreadable', `${name} cannot be read, or is not a regular file`)
}

function missing(path: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'copy.missing',
    message: `there is no file or directory ${path}`,
    hint: 'a relative path begins at the current directory of the program',
  })
}

function tooLarge(path: string): AgentPodError {
  return invalid(
    'copy.large',
    `${path} has more than ${MOST_BYTES / 1024 / 1024} MiB`,
    'copy less, list large files in .gitignore, or download them in a step',
  )
}
