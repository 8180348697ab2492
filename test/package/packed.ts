/** The npm package of this clone: packed once, and installed where a test wants it. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { type Caller, ROOT } from '../support/world.ts'

/** What a machine that only uses AgentPod does not have. */
const BUILD_TOOLS =
  /^(?:go|gofmt|make|ld|as|cc|gcc|g\+\+|c\+\+|clang|cpp|.*-(?:gcc|g\+\+|cpp|ld|as))(?:[.-][\w.-]+)?$/

const PROGRAM_DIRECTORIES = ['/usr/local/bin', '/usr/bin', '/bin', '/usr/local/sbin', '/usr/sbin', '/sbin']

/** Gives the path of the tarball. */
export function pack(): string {
  const to = mkdtempSync(join(tmpdir(), 'agentpod-pack-'))
  const [name = ''] = npm(ROOT, ['pack', '--silent', '--pack-destination', to]).trim().split('\n').slice(-1)
  return join(to, name)
}

/** No package of others is needed, so no registry is asked. */
export function installGlobally(tarball: string, prefix: string): string {
  npm('/', ['install', '--global', '--offline', '--silent', '--prefix', prefix, tarball])
  return join(prefix, 'bin', 'agentpod')
}

export function installInProject(tarball: string, directory: string): void {
  npm(directory, ['install', '--offline', '--silent', '--no-package-lock', tarball])
}

function npm(cwd: string, words: readonly string[]): string {
  return execFileSync('npm', words, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}

/**
 * A directory for PATH with the programs of this machine, without Go and compilers, and with this Node as
 * `node`. `without` names further programs that are missing.
 */
export function programsWithoutBuildTools(directory: string, without: readonly string[] = []): string {
  const bin = join(directory, 'bin')
  mkdirSync(bin, { recursive: true })
  giveNode(join(bin, 'node'))
  for (const from of PROGRAM_DIRECTORIES.filter((one) => existsSync(one)))
    for (const name of readdirSync(from)) {
      const isWanted = name !== 'node' && !BUILD_TOOLS.test(name) && !without.includes(name)
      if (isWanted && !existsSync(join(bin, name))) symlinkLeniently(join(from, name), join(bin, name))
    }
  return bin
}

/**
 * Node where a user can run it who may not read this clone. A link costs nothing; another file system needs a
 * copy.
 */
function giveNode(file: string): void {
  try {
    linkSync(process.execPath, file)
  } catch {
    copyFileSync(process.execPath, file)
    chmodSync(file, 0o755)
  }
}

/** Two directories may hold the same dangling link. */
function symlinkLeniently(target: string, path: string): void {
  try {
    symlinkSync(target, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** The user who runs the tests, with an installed `agentpod` and an empty home directory. */
export function ownCaller(agentpod: string, home: string): Caller {
  const { uid, gid, username } = userInfo()
  return { name: username, uid, gid, home, agentpod }
}

const MACHINES: Readonly<Record<number, string>> = { 62: 'x64', 183: 'arm64' }
const PT_INTERP = 3

/** What the header of an ELF file of 64 bits says. */
export function elfOf(file: string): { readonly processor: string | undefined; readonly isStatic: boolean } {
  const data = readFileSync(file)
  const start = Number(data.readBigUInt64LE(32))
  const [size, count] = [data.readUInt16LE(54), data.readUInt16LE(56)]
  const kinds = Array.from({ length: count }, (_, at) => data.readUInt32LE(start + at * size))
  return { processor: MACHINES[data.readUInt16LE(18)], isStatic: !kinds.includes(PT_INTERP) }
}
