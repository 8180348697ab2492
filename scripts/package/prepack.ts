/**
 * Adds to dist/ what an npm package has and a clone does not need: podd and podhost for each processor, type
 * files, and the licences of bundled code. `npm pack` runs it after scripts/build. dist/ also has files that
 * are not packed, such as chunks of former builds for servers that still run; dist/.npmignore names them.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDeclarations } from './declarations.ts'
import { licences, newerGo } from './licences.ts'

/** Node's names of processors, with Go's. */
const PROCESSORS = { x64: 'amd64', arm64: 'arm64' } as const

const root = join(import.meta.dirname, '..', '..')
const dist = join(root, 'dist')
const work = join(dist, '.package')

interface Metafile {
  readonly inputs: Readonly<Record<string, unknown>>
  readonly outputs: Readonly<Record<string, unknown>>
}

const metafiles = ['.cli.json', '.exports.json'].map(
  (name) => JSON.parse(readFileSync(join(dist, name), 'utf8')) as Metafile,
)

rmSync(work, { recursive: true, force: true })
for (const [processor, goarch] of Object.entries(PROCESSORS)) buildNative(processor, goarch)
writeDeclarations(root, join(work, 'types'))
const inputs = metafiles.flatMap((one) => Object.keys(one.inputs))
writeFileSync(join(work, 'THIRD-PARTY-LICENSES.txt'), licences(root, inputs))
const added = globSync('**', { cwd: work, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(work.length + 1))
putInPlace()
writeFileSync(join(dist, '.npmignore'), unpacked().join('\n'))

/**
 * scripts/build has made those of this machine's processor, with the same flags. podimage needs a newer Go
 * than the other two.
 */
function buildNative(processor: string, goarch: string): void {
  const to = join(work, 'bin', processor)
  mkdirSync(to, { recursive: true })
  if (processor === process.arch) {
    const names = ['podd', 'podhost', 'podimage', 'podfiles', ...(goarch === 'amd64' ? ['vminit'] : [])]
    for (const name of names) copyFileSync(join(dist, 'bin', name), join(to, name))
    return
  }
  const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w']
  const env = { ...process.env, CGO_ENABLED: '0', GOOS: 'linux', GOARCH: goarch, GOTOOLCHAIN: 'local' }
  const build = (go: string, from: string, ...what: string[]): void => {
    execFileSync(go, ['build', ...flags, '-o', `${to}/`, ...what], { cwd: from, env, stdio: 'inherit' })
  }
  // Virtual machines need x86-64, so vminit is not built for other processors.
  const programs = ['./cmd/podd', './cmd/podhost', ...(goarch === 'amd64' ? ['./cmd/vminit'] : [])]
  build('go', join(root, 'native'), ...programs)
  build(newerGo(root), join(root, 'native', 'podimage'), '.', './cmd/podfiles')
}

function putInPlace(): void {
  const directories = ['types', ...Object.keys(PROCESSORS).map((name) => join('bin', name))]
  for (const directory of directories) rmSync(join(dist, directory), { recursive: true, force: true })
  for (const name of [...directories, 'THIRD-PARTY-LICENSES.txt'])
    renameSync(join(work, name), join(dist, name))
  rmSync(work, { recursive: true })
}

/** The ignore lines for what is not of this build; names that begin with a dot are never packed. */
function unpacked(): string[] {
  const built = metafiles
    .flatMap((one) => Object.keys(one.outputs))
    .map((path) => path.replace('dist/.new/js/', ''))
  const packed = new Set([...built.filter((path) => path.endsWith('.js')), ...added])
  const present = globSync('**', { cwd: dist, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(dist.length + 1))
  return ['.*', ...present.filter((path) => !packed.has(path)).map((path) => `/${path}`), '']
}
