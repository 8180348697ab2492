/**
 * A layer with this machine's git, for images that have none: projects and their branches need it. It is not
 * on the PATH of programs inside; scripts of ours find it. It brings its own libraries and loader, so it runs
 * on every Linux image with a /bin/sh, whichever C library the image has.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, readFile, realpath } from 'node:fs/promises'
import { basename, delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { packTar } from '../../../util/file/tar-writer.ts'

/** `FIND_GIT` in src/sync/find-git.ts looks there. */
const DIRECTORY = '.agentpod/tools'
const LDD_MS = 10_000
const LARGEST_BYTES = 64 * 1024 * 1024

export interface GitLayer {
  /** sha256 of the tar file. */
  readonly digest: string
  readonly tar: Buffer
}

/** Undefined if this machine has no git, or one whose libraries are not known. */
export async function gitLayer(
  env: Readonly<Record<string, string | undefined>>,
): Promise<GitLayer | undefined> {
  const git = await findProgram('git', env['PATH'] ?? '')
  if (git === undefined) return undefined
  const libraries = await librariesOf(git, env).catch(() => undefined)
  if (libraries === undefined) return undefined
  const { loader, shared } = libraries
  const files = [
    { name: 'bin/git', content: Buffer.from(wrapperFor(basename(loader))), mode: 0o755 },
    { name: 'git', content: await readFile(git), mode: 0o755 },
    { name: `lib/${basename(loader)}`, content: await readFile(loader), mode: 0o755 },
  ]
  for (const path of shared)
    files.push({ name: `lib/${basename(path)}`, content: await readFile(path), mode: 0o755 })
  const tar = pack(files)
  if (tar.length > LARGEST_BYTES) return undefined
  return { digest: createHash('sha256').update(tar).digest('hex'), tar }
}

/** The loader is called by name: no variable reaches the programs that git starts. */
function wrapperFor(loader: string): string {
  const at = `/${DIRECTORY}`
  return `#!/bin/sh\nexport GIT_EXEC_PATH=${at}/bin\nexec ${at}/lib/${loader} --library-path ${at}/lib ${at}/git "$@"\n`
}

function pack(files: readonly { name: string; content: Buffer; mode: number }[]): Buffer {
  const directories = ['.agentpod', DIRECTORY, `${DIRECTORY}/bin`, `${DIRECTORY}/lib`]
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return packTar([
    ...directories.map((path) => ({ path, mode: 0o755 })),
    ...sorted.map(({ name, content, mode }) => ({ path: `${DIRECTORY}/${name}`, content, mode })),
  ])
}

async function findProgram(name: string, path: string): Promise<string | undefined> {
  for (const directory of path.split(delimiter)) {
    const file = join(directory, name)
    const found =
      directory === ''
        ? undefined
        : await access(file).then(
            () => realpath(file),
            () => undefined,
          )
    if (found !== undefined) return found
  }
  return undefined
}

/** As the machine's own loader resolves them. */
async function librariesOf(
  program: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly loader: string; readonly shared: readonly string[] } | undefined> {
  const { stdout } = await promisify(execFile)('ldd', [program], {
    timeout: LDD_MS,
    env: { PATH: env['PATH'] ?? '', LC_ALL: 'C' },
  })
  const shared: string[] = []
  let loader: string | undefined
  for (const line of stdout.split('\n')) {
    const [, target] = /=> (\/\S+) \(0x/.exec(line) ?? []
    const [, own] = /^\s*(\/\S*ld-\S+)(?: =>.*)? \(0x/.exec(line) ?? []
    if (own !== undefined) loader = own
    else if (target !== undefined) shared.push(target)
    else if (line.includes('not found')) return undefined
  }
  return loader === undefined ? undefined : { loader, shared }
}
