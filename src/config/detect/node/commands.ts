/** Commands of a package, from its scripts and dependencies. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { valueAt } from '../../../util/untrusted-json.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { FoundCommand, Verb } from '../finding.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { evidenceIn, readJsonFile, readTextFile } from '../project-files/parsed-file.ts'
import { dependencyEvidence, type NodeWorkspace, type PackageJson, scriptEvidence } from './package-json.ts'
import type { ManagerName } from './package-manager.ts'
import { nodeStart } from './start.ts'

type Commands = Partial<Record<Verb, FoundCommand>>

/** Script names for each verb, the most usual first. */
const SCRIPTS: readonly (readonly [Verb, readonly string[]])[] = [
  ['dev', ['dev', 'start:dev', 'serve', 'develop', 'dev:server', 'watch']],
  ['test', ['test', 'test:unit', 'tests', 'unit', 'test:all', 'test:ci']],
  ['lint', ['lint', 'lint:check', 'eslint', 'lint:js', 'lint:all']],
  ['build', ['build', 'compile', 'build:prod', 'bundle']],
  ['start', ['start', 'start:prod', 'serve:prod']],
]
/** npm writes this into every new package. */
const NO_TEST = /no test specified/
/** Development servers that projects often run with `start`. */
const DEVELOPMENT =
  /\b(?:react-scripts start|react-app-rewired start|craco start|ng serve|vue-cli-service serve|webpack(?:-dev-server| serve)|gatsby develop|docusaurus start|expo start|nodemon|ts-node-dev|tsx watch|vite(?! (?:build|preview))|next dev|nuxt dev|parcel (?!build))/
/** Test runners that watch for changes unless told to run once. */
const WATCHES =
  /(?:^|&&\s*)(?:react-scripts test|react-app-rewired test|craco test|vitest)(?! run\b)(?!.*--(?:run|watchAll=false|watch=false))/

const RUNNERS: readonly (readonly [dependency: string, run: string])[] = [
  ['vitest', 'vitest run'],
  ['jest', 'jest'],
  ['mocha', 'mocha'],
  ['ava', 'ava'],
  ['tap', 'tap'],
  ['@playwright/test', 'playwright test'],
]

export function nodeCommands(tree: FileTree, workspace: NodeWorkspace, manager: ManagerName): Commands {
  const { root, members } = workspace
  const found = new Map<Verb, FoundCommand | undefined>(
    SCRIPTS.map(([verb, names]) => [
      verb,
      scripted(root, verb, names, manager) ??
        acrossTasks(tree, workspace, verb, manager) ??
        (members.length > 0 ? acrossMembers(workspace, verb, names, manager) : undefined) ??
        unscripted(tree, workspace, verb, manager),
    ]),
  )
  return Object.fromEntries([...found].filter(([, command]) => command !== undefined))
}

function unscripted(
  tree: FileTree,
  { root }: NodeWorkspace,
  verb: Verb,
  manager: ManagerName,
): FoundCommand | undefined {
  if (verb === 'dev') return startForDevelopment(root, manager)
  if (verb === 'test') return unscriptedTest(tree, root, manager)
  if (verb === 'lint') return unscriptedLint(tree, root, manager)
  if (verb !== 'start') return undefined
  return nodeStart(tree, root, {
    program: manager === 'bun' ? 'bun' : 'node',
    script: (name) => runs(manager, name),
    executable: (run) => executes(manager, run),
  })
}

function startForDevelopment(root: PackageJson, manager: ManagerName): FoundCommand | undefined {
  return DEVELOPMENT.test(root.scripts.get('start') ?? '')
    ? { run: runs(manager, 'start'), evidence: scriptEvidence(root, 'start') }
    : undefined
}

function scripted(
  manifest: PackageJson,
  verb: Verb,
  names: readonly string[],
  manager: ManagerName,
): FoundCommand | undefined {
  const name = names.find((one) => isUsable(manifest, verb, one))
  if (name === undefined) return undefined
  const unattended = verb === 'test' && WATCHES.test(manifest.scripts.get(name) ?? '') ? 'CI=true ' : ''
  return { run: `${unattended}${runs(manager, name)}`, evidence: scriptEvidence(manifest, name) }
}

function isUsable({ scripts }: PackageJson, verb: Verb, name: string): boolean {
  const script = scripts.get(name)
  if (script === undefined || script.trim() === '') return false
  if (verb === 'test') return !NO_TEST.test(script)
  // `watch` only recompiles in some packages and serves in others.
  return name !== 'watch' || DEVELOPMENT.test(script)
}

function runs(manager: ManagerName, script: string): string {
  const program = manager === 'yarn-berry' ? 'yarn' : manager
  // `bun test` does not run the script of that name.
  const isShort = manager !== 'bun' && (script === 'test' || script === 'start')
  return `${program} ${isShort ? '' : 'run '}${shellWord(script)}`
}

/** A program of a dependency. */
function executes(manager: ManagerName, run: string): string {
  if (manager === 'npm') return `npx ${run}`
  if (manager === 'pnpm') return `pnpm exec ${run}`
  return manager === 'bun' ? `bunx ${run}` : `yarn run ${run}`
}

/** Turborepo and Nx know the tasks of all members. */
function acrossTasks(
  tree: FileTree,
  { root, members }: NodeWorkspace,
  verb: Verb,
  manager: ManagerName,
): FoundCommand | undefined {
  if (verb === 'start') return undefined
  const turbo = joinPath(root.directory, 'turbo.json')
  const read = readJsonFile(tree, turbo)
  if (read && (valueAt(read.data, 'tasks', verb) ?? valueAt(read.data, 'pipeline', verb)) !== undefined)
    return {
      run: executes(manager, `turbo run ${verb}`),
      evidence: evidenceIn(turbo, read.text, [`"${verb}"`], `"${verb}"`),
    }
  const nx = joinPath(root.directory, 'nx.json')
  if (!tree.has(nx) || verb === 'dev' || members.length === 0) return undefined
  const text = readTextFile(tree, nx) ?? ''
  return text.includes(`"${verb}"`)
    ? {
        run: executes(manager, `nx run-many -t ${verb}`),
        evidence: evidenceIn(nx, text, [`"${verb}"`], `"${verb}"`),
      }
    : undefined
}

/** If the root has no script: one member runs by its name, several together if the command ends. */
function acrossMembers(
  { members }: NodeWorkspace,
  verb: Verb,
  names: readonly string[],
  manager: ManagerName,
): FoundCommand | undefined {
  for (const name of names) {
    const having = members.filter((member) => isUsable(member, verb, name))
    const [first] = having
    if (!first) continue
    const evidence = scriptEvidence(first, name)
    if (having.length === 1) return { run: inMember(manager, first.name, name), evidence }
    if (verb === 'dev' || verb === 'start') return undefined
    const run = inEach(manager, name)
    return run === undefined ? undefined : { run, evidence }
  }
  return undefined
}

function inMember(manager: ManagerName, member: string, script: string): string {
  const [name, word] = [shellWord(member), shellWord(script)]
  if (manager === 'npm') return `npm run ${word} -w ${name}`
  if (manager === 'pnpm') return `pnpm --filter ${name} run ${word}`
  return manager === 'bun' ? `bun run --filter ${name} ${word}` : `yarn workspace ${name} run ${word}`
}

function inEach(manager: ManagerName, script: string): string | undefined {
  const word = shellWord(script)
  if (manager === 'npm') return `npm run ${word} --workspaces --if-present`
  if (manager === 'pnpm') return `pnpm -r --if-present run ${word}`
  if (manager === 'yarn-berry') return `yarn workspaces foreach --all run ${word}`
  return manager === 'bun' ? `bun run --filter '*' ${word}` : undefined
}

function unscriptedTest(tree: FileTree, root: PackageJson, manager: ManagerName): FoundCommand | undefined {
  const runner = RUNNERS.find(([dependency]) => root.dependencies.has(dependency))
  if (runner) return { run: executes(manager, runner[1]), evidence: dependencyEvidence(root, runner[0]) }
  const isTest = manager === 'bun' ? /\.(?:test|spec)\.[cm]?[jt]sx?$|_test\.[jt]s$/ : /\.test\.[cm]?[jt]s$/
  const file = tree
    .below(root.directory)
    .find((one) => isTest.test(nameOf(one)) && !isIgnored(directoryOf(one)))
  if (file === undefined) return undefined
  const text = readTextFile(tree, file) ?? ''
  if (manager === 'bun') return { run: 'bun test', evidence: { file, said: nameOf(file) } }
  return text.includes('node:test')
    ? { run: 'node --test', evidence: evidenceIn(file, text, ['node:test'], 'node:test') }
    : undefined
}

function unscriptedLint(tree: FileTree, root: PackageJson, manager: ManagerName): FoundCommand | undefined {
  const configured = (pattern: RegExp): string | undefined =>
    tree.in(root.directory).find((name) => pattern.test(name))
  if (root.dependencies.has('@biomejs/biome') && configured(/^biome\.jsonc?$/) !== undefined)
    return { run: executes(manager, 'biome check .'), evidence: dependencyEvidence(root, '@biomejs/biome') }
  const eslint = configured(/^(?:eslint\.config\.[cm]?[jt]s|\.eslintrc(?:\.\w+)?)$/)
  if (!root.dependencies.has('eslint') || eslint === undefined) return undefined
  return {
    run: executes(manager, 'eslint .'),
    evidence: { file: joinPath(root.directory, eslint), said: eslint },
  }
}
