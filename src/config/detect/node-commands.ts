/** What people do with a package, as its scripts and its dependencies say. */

import { shellWord } from '../../util/shell-word.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { isAside } from './aside.ts'
import type { FoundCommand, Verb } from './finding.ts'
import type { ManagerName } from './node-manager.ts'
import { dependencyEvidence, type Manifest, scriptEvidence, type Workspace } from './node-manifest.ts'
import { nodeStart } from './node-start.ts'
import { at, evidenceIn, readJson, readPlain } from './reading.ts'

type Commands = Partial<Record<Verb, FoundCommand>>

/** Scripts by which people say a verb, the usual name first. */
const SCRIPTS: readonly (readonly [Verb, readonly string[]])[] = [
  ['dev', ['dev', 'start:dev', 'serve', 'develop', 'dev:server', 'watch']],
  ['test', ['test', 'test:unit', 'tests', 'unit', 'test:all', 'test:ci']],
  ['lint', ['lint', 'lint:check', 'eslint', 'lint:js', 'lint:all']],
  ['build', ['build', 'compile', 'build:prod', 'bundle']],
  ['start', ['start', 'start:prod', 'serve:prod']],
]
/** npm writes it into every new package. */
const NO_TEST = /no test specified/
/** Programs that people start with `start` and mean to develop with. */
const DEVELOPMENT =
  /\b(?:react-scripts start|react-app-rewired start|craco start|ng serve|vue-cli-service serve|webpack(?:-dev-server| serve)|gatsby develop|docusaurus start|expo start|nodemon|ts-node-dev|tsx watch|vite(?! (?:build|preview))|next dev|nuxt dev|parcel (?!build))/
/** Runners that wait for changes unless they are told that nobody is there. */
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

export function nodeCommands(tree: FileTree, workspace: Workspace, manager: ManagerName): Commands {
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
  { root }: Workspace,
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

function startForDevelopment(root: Manifest, manager: ManagerName): FoundCommand | undefined {
  return DEVELOPMENT.test(root.scripts.get('start') ?? '')
    ? { run: runs(manager, 'start'), evidence: scriptEvidence(root, 'start') }
    : undefined
}

function scripted(
  manifest: Manifest,
  verb: Verb,
  names: readonly string[],
  manager: ManagerName,
): FoundCommand | undefined {
  const name = names.find((one) => isUsable(manifest, verb, one))
  if (name === undefined) return undefined
  const unattended = verb === 'test' && WATCHES.test(manifest.scripts.get(name) ?? '') ? 'CI=true ' : ''
  return { run: `${unattended}${runs(manager, name)}`, evidence: scriptEvidence(manifest, name) }
}

function isUsable({ scripts }: Manifest, verb: Verb, name: string): boolean {
  const script = scripts.get(name)
  if (script === undefined || script.trim() === '') return false
  if (verb === 'test') return !NO_TEST.test(script)
  // `watch` compiles again and again in some packages and serves in others.
  return name !== 'watch' || DEVELOPMENT.test(script)
}

function runs(manager: ManagerName, script: string): string {
  const program = manager === 'yarn-berry' ? 'yarn' : manager
  // Bun's own `test` is another thing than the script of that name.
  const isShort = manager !== 'bun' && (script === 'test' || script === 'start')
  return `${program} ${isShort ? '' : 'run '}${shellWord(script)}`
}

/** A program that a dependency brings. */
function executes(manager: ManagerName, run: string): string {
  if (manager === 'npm') return `npx ${run}`
  if (manager === 'pnpm') return `pnpm exec ${run}`
  return manager === 'bun' ? `bunx ${run}` : `yarn run ${run}`
}

/** Turborepo and Nx know the tasks of all members. */
function acrossTasks(
  tree: FileTree,
  { root, members }: Workspace,
  verb: Verb,
  manager: ManagerName,
): FoundCommand | undefined {
  if (verb === 'start') return undefined
  const turbo = within(root.directory, 'turbo.json')
  const read = readJson(tree, turbo)
  if (read && (at(read.data, 'tasks', verb) ?? at(read.data, 'pipeline', verb)) !== undefined)
    return {
      run: executes(manager, `turbo run ${verb}`),
      evidence: evidenceIn(turbo, read.text, [`"${verb}"`], `"${verb}"`),
    }
  const nx = within(root.directory, 'nx.json')
  if (!tree.has(nx) || verb === 'dev' || members.length === 0) return undefined
  const text = readPlain(tree, nx) ?? ''
  return text.includes(`"${verb}"`)
    ? {
        run: executes(manager, `nx run-many -t ${verb}`),
        evidence: evidenceIn(nx, text, [`"${verb}"`], `"${verb}"`),
      }
    : undefined
}

/** Where the root has no script of its own: one member is run by its name, several at once if that ends by itself. */
function acrossMembers(
  { members }: Workspace,
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

function unscriptedTest(tree: FileTree, root: Manifest, manager: ManagerName): FoundCommand | undefined {
  const runner = RUNNERS.find(([dependency]) => root.dependencies.has(dependency))
  if (runner) return { run: executes(manager, runner[1]), evidence: dependencyEvidence(root, runner[0]) }
  const isTest = manager === 'bun' ? /\.(?:test|spec)\.[cm]?[jt]sx?$|_test\.[jt]s$/ : /\.test\.[cm]?[jt]s$/
  const file = tree
    .below(root.directory)
    .find((one) => isTest.test(nameOf(one)) && !isAside(directoryOf(one)))
  if (file === undefined) return undefined
  const text = readPlain(tree, file) ?? ''
  if (manager === 'bun') return { run: 'bun test', evidence: { file, said: nameOf(file) } }
  return text.includes('node:test')
    ? { run: 'node --test', evidence: evidenceIn(file, text, ['node:test'], 'node:test') }
    : undefined
}

function unscriptedLint(tree: FileTree, root: Manifest, manager: ManagerName): FoundCommand | undefined {
  const configured = (pattern: RegExp): string | undefined =>
    tree.in(root.directory).find((name) => pattern.test(name))
  if (root.dependencies.has('@biomejs/biome') && configured(/^biome\.jsonc?$/) !== undefined)
    return { run: executes(manager, 'biome check .'), evidence: dependencyEvidence(root, '@biomejs/biome') }
  const eslint = configured(/^(?:eslint\.config\.[cm]?[jt]s|\.eslintrc(?:\.\w+)?)$/)
  if (!root.dependencies.has('eslint') || eslint === undefined) return undefined
  return {
    run: executes(manager, 'eslint .'),
    evidence: { file: within(root.directory, eslint), said: eslint },
  }
}
