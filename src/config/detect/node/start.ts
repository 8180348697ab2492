/** How to start a package without a start script: the server of its framework, or its main file. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { evidenceIn, readTextFile, textAt } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { dependencyEvidence, type PackageJson, scriptEvidence } from './package-json.ts'

/** How programs are run with the package manager. */
export interface Runner {
  /** `node`, or `bun`. */
  readonly program: string
  /** A script of the package. */
  script(name: string): string
  /** A program of a dependency. */
  executable(run: string): string
}

/** Servers that frameworks build, by the dependency that builds them. More telling ones first. */
const SERVERS: readonly (readonly [dependency: string, file: string])[] = [
  ['nuxt', '.output/server/index.mjs'],
  ['nuxt3', '.output/server/index.mjs'],
  ['@sveltejs/adapter-node', 'build'],
  ['@astrojs/node', 'dist/server/entry.mjs'],
  ['@tanstack/react-start', '.output/server/index.mjs'],
  ['@tanstack/solid-start', '.output/server/index.mjs'],
  ['@solidjs/start', '.output/server/index.mjs'],
  ['vinxi', '.output/server/index.mjs'],
  ['nitropack', '.output/server/index.mjs'],
  ['nitro', '.output/server/index.mjs'],
  ['@nestjs/core', 'dist/main'],
]

const PROGRAMS: readonly (readonly [dependency: string, run: string])[] = [
  ['next', 'next start'],
  ['@react-router/serve', 'react-router-serve build/server/index.js'],
  ['@remix-run/serve', 'remix-serve build/server/index.js'],
  ['gatsby', 'gatsby serve --host 0.0.0.0'],
  ['@docusaurus/core', 'docusaurus serve --host 0.0.0.0'],
]

/** Usual names of main files. */
const MAINS = [
  'server.js',
  'index.js',
  'app.js',
  'main.js',
  'index.mjs',
  'index.ts',
  'server.ts',
  'src/index.js',
  'src/server.js',
  'src/index.ts',
  'src/server.ts',
]

export function nodeStart(tree: FileTree, root: PackageJson, runner: Runner): FoundCommand | undefined {
  return builtServer(root, runner) ?? mainFile(tree, root, runner) ?? preview(root, runner)
}

function builtServer(root: PackageJson, { program, executable }: Runner): FoundCommand | undefined {
  const { dependencies } = root
  const server = SERVERS.find(([name]) => dependencies.has(name))
  if (server) return { run: `${program} ${server[1]}`, evidence: dependencyEvidence(root, server[0]) }
  const angular = dependencies.has('@angular/ssr') && /^[\w.-]+$/.test(root.name)
  if (angular)
    return {
      run: `${program} dist/${root.name}/server/server.mjs`,
      evidence: dependencyEvidence(root, '@angular/ssr'),
    }
  const own = PROGRAMS.find(([name]) => dependencies.has(name))
  return own && { run: executable(own[1]), evidence: dependencyEvidence(root, own[0]) }
}

/** Marks of a library. Its main file starts nothing unless it looks like a program. */
const LIBRARY = ['exports', 'types', 'typings', 'files', 'publishConfig', 'peerDependencies', 'module']

function mainFile(tree: FileTree, root: PackageJson, runner: Runner): FoundCommand | undefined {
  const main = textAt(root.data, 'main')
  const isLibrary = LIBRARY.some((key) => valueAt(root.data, key) !== undefined)
  const path = [main ?? '', ...MAINS].find((one) => {
    const file = one === '' ? undefined : pathInProject(root.directory, one)
    if (file === undefined || !tree.has(file) || !/\.[cm]?[jt]s$/.test(file)) return false
    return one === 'server.js' || listens(tree, file) || !(isLibrary || isImported(tree, file, runner))
  })
  if (path === undefined) return undefined
  const evidence: Evidence =
    path === main
      ? evidenceIn(root.file, root.text, ['"main"'], `"main": "${main}"`)
      : { file: joinPath(root.directory, path), said: path }
  return { run: `${interpreter(root, path, runner)} ${shellWord(path.replace(/^\.\//, ''))}`, evidence }
}

function listens(tree: FileTree, file: string): boolean {
  return /\.listen\(|createServer\(|Bun\.serve\(|^#!/.test(readTextFile(tree, file) ?? '')
}

/** A file that only exports is a library. Bun serves the default export of a main file. */
function isImported(tree: FileTree, file: string, { program }: Runner): boolean {
  const text = readTextFile(tree, file) ?? ''
  if (program === 'bun' && /^export default\b/m.test(text)) return false
  return /^(?:module\.exports|exports\.\w|export )/m.test(text)
}

/** Node strips types itself; a project with its own TypeScript runner uses that. */
function interpreter({ dependencies }: PackageJson, path: string, { program, executable }: Runner): string {
  if (program !== 'node' || !/\.[cm]?ts$/.test(path)) return program
  const own = ['tsx', 'ts-node'].find((name) => dependencies.has(name))
  return own === undefined ? program : executable(own)
}

/** For static sites: the tool that built the pages serves them. */
function preview(root: PackageJson, { script, executable }: Runner): FoundCommand | undefined {
  if (root.scripts.has('preview'))
    return { run: script('preview'), evidence: scriptEvidence(root, 'preview') }
  return root.dependencies.has('vite')
    ? { run: executable('vite preview --host 0.0.0.0'), evidence: dependencyEvidence(root, 'vite') }
    : undefined
}
