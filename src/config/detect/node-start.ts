/** How a package is started that has no script for it: the server that its framework builds, or its main file. */

import { shellWord } from '../../util/shell-word.ts'
import type { Evidence } from '../evidence.ts'
import { type FileTree, within } from '../tree.ts'
import type { FoundCommand } from './finding.ts'
import { dependencyEvidence, type Manifest, scriptEvidence } from './node-manifest.ts'
import { inside } from './place.ts'
import { at, evidenceIn, readPlain, textAt } from './reading.ts'

/** How programs are run with the package manager. */
export interface Runner {
  /** `node`, or `bun`. */
  readonly program: string
  /** A script of the package. */
  script(name: string): string
  /** A program that a dependency brings. */
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

/** Main files that nobody names. */
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

export function nodeStart(tree: FileTree, root: Manifest, runner: Runner): FoundCommand | undefined {
  return builtServer(root, runner) ?? mainFile(tree, root, runner) ?? preview(root, runner)
}

function builtServer(root: Manifest, { program, executable }: Runner): FoundCommand | undefined {
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

/** Signs of a package that others import. Its main file starts nothing, unless it says that it does. */
const LIBRARY = ['exports', 'types', 'typings', 'files', 'publishConfig', 'peerDependencies', 'module']

function mainFile(tree: FileTree, root: Manifest, runner: Runner): FoundCommand | undefined {
  const main = textAt(root.data, 'main')
  const isLibrary = LIBRARY.some((key) => at(root.data, key) !== undefined)
  const path = [main ?? '', ...MAINS].find((one) => {
    const file = one === '' ? undefined : inside(root.directory, one)
    if (file === undefined || !tree.has(file) || !/\.[cm]?[jt]s$/.test(file)) return false
    return one === 'server.js' || listens(tree, file) || !(isLibrary || isImported(tree, file, runner))
  })
  if (path === undefined) return undefined
  const evidence: Evidence =
    path === main
      ? evidenceIn(root.file, root.text, ['"main"'], `"main": "${main}"`)
      : { file: within(root.directory, path), said: path }
  return { run: `${interpreter(root, path, runner)} ${shellWord(path.replace(/^\.\//, ''))}`, evidence }
}

function listens(tree: FileTree, file: string): boolean {
  return /\.listen\(|createServer\(|Bun\.serve\(|^#!/.test(readPlain(tree, file) ?? '')
}

/** What only exports is for others. Bun serves what a main file exports by default. */
function isImported(tree: FileTree, file: string, { program }: Runner): boolean {
  const text = readPlain(tree, file) ?? ''
  if (program === 'bun' && /^export default\b/m.test(text)) return false
  return /^(?:module\.exports|exports\.\w|export )/m.test(text)
}

/** Node takes the types away itself by now; a project that has a program for it means that one. */
function interpreter({ dependencies }: Manifest, path: string, { program, executable }: Runner): string {
  if (program !== 'node' || !/\.[cm]?ts$/.test(path)) return program
  const own = ['tsx', 'ts-node'].find((name) => dependencies.has(name))
  return own === undefined ? program : executable(own)
}

/** Of pages alone: what was built is served by the tool that built it. */
function preview(root: Manifest, { script, executable }: Runner): FoundCommand | undefined {
  if (root.scripts.has('preview'))
    return { run: script('preview'), evidence: scriptEvidence(root, 'preview') }
  return root.dependencies.has('vite')
    ? { run: executable('vite preview --host 0.0.0.0'), evidence: dependencyEvidence(root, 'vite') }
    : undefined
}
