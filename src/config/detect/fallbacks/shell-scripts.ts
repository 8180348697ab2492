/** Projects of shell scripts, and projects that only have a task runner. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, nameOf } from '../../file-tree.ts'
import { detectC } from '../c/detect.ts'
import type { Detector, FoundCommand, FoundPackage, FoundTool, Verb } from '../finding.ts'
import { detectTasks } from '../instructions/task-runners.ts'
import { distinctPackages, packagesOf } from '../project-files/debian-packages.ts'
import { evidenceAt, linesIn } from '../project-files/find-lines.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { manifestAnywhere } from '../project-files/manifests.ts'

/** Directories of scripts that make up a project. */
const PLACES = ['', 'bin', 'scripts', 'src', 'lib']

export const detectShellScripts: Detector = (tree) => {
  if (manifestAnywhere(tree) !== undefined || detectC(tree).length > 0) return []
  const scripts = scriptsOf(tree)
  const tests = tree.ending('.bats').filter((path) => !isIgnored(directoryOf(path)))
  const tasks = detectTasks(tree, '')
  const [first] = [...scripts, ...tests, ...Object.values(tasks).map(({ evidence }) => evidence.file)]
  if (first === undefined) return []
  const evidence = evidenceAt(first, scripts.length > 0 ? 1 : undefined, nameOf(first))
  const own = ownCommands(tree, scripts, tests)
  const commands = { ...tasks, ...own }
  return [
    {
      language: 'shell',
      directory: '',
      evidence,
      versions: [],
      tools: toolsOf(commands),
      inputs: [],
      commands,
      packages: packagesFor(tree, scripts, tests, commands),
      generated: [],
      presets: [],
    },
  ]
}

function scriptsOf(tree: FileTree): readonly string[] {
  return PLACES.flatMap((place) =>
    tree
      .in(place)
      .flatMap((name) => (/\.(?:sh|bash|zsh)$/.test(name) ? [place === '' ? name : `${place}/${name}`] : [])),
  )
}

/** Commands for the scripts themselves, used only if no task runner has one. */
function ownCommands(
  tree: FileTree,
  scripts: readonly string[],
  tests: readonly string[],
): Partial<Record<Verb, FoundCommand>> {
  const tasks = detectTasks(tree, '')
  const [test] = tests
  const lint = ['.shellcheckrc', 'shellcheckrc'].find((path) => tree.has(path))
  const start = tree.has('start.sh') ? 'start.sh' : undefined
  return {
    ...(test &&
      !tasks.test && {
        test: { run: `bats ${directoriesOf(tests)}`, evidence: evidenceAt(test, undefined, nameOf(test)) },
      }),
    ...(lint &&
      !tasks.lint &&
      scripts.length > 0 && {
        lint: { run: `shellcheck ${shellPatterns(scripts)}`, evidence: evidenceAt(lint, undefined, lint) },
      }),
    ...(start &&
      !tasks.start && {
        start: { run: `${interpreterOf(tree, start)} start.sh`, evidence: evidenceAt(start, 1, start) },
      }),
  }
}

function directoriesOf(files: readonly string[]): string {
  return [...new Set(files.map(directoryOf))]
    .toSorted()
    .map((one) => shellWord(one === '' ? '.' : one))
    .join(' ')
}

/** Uses directory patterns instead of file names, so that new scripts are included. */
function shellPatterns(scripts: readonly string[]): string {
  const patterns = scripts
    .filter((path) => path.endsWith('.sh'))
    .map((path) => (directoryOf(path) === '' ? '*.sh' : `${directoryOf(path)}/*.sh`))
  return [...new Set(patterns)].toSorted().join(' ') || scripts.map(shellWord).join(' ')
}

function interpreterOf(tree: FileTree, script: string): string {
  const first = linesIn(tree, script)[0]?.text ?? ''
  return /^#!.*\b(bash|zsh|dash|ksh)\b/.exec(first)?.[1] ?? (first.startsWith('#!') ? 'sh' : 'bash')
}

const RUNNERS: Readonly<Record<string, string>> = { just: 'just', task: 'task' }

/** Programs that Debian packages have, and other tools. */
function toolsOf(commands: Partial<Record<Verb, FoundCommand>>): readonly FoundTool[] {
  const found = new Map<string, Evidence>()
  for (const { run, evidence } of Object.values(commands)) {
    const runner = run.split(' ', 1)[0] ?? ''
    if (Object.hasOwn(RUNNERS, runner) && !found.has(runner)) found.set(runner, evidence)
  }
  return [...found].map(([name, evidence]) => ({ name, evidence }))
}

function packagesFor(
  tree: FileTree,
  scripts: readonly string[],
  tests: readonly string[],
  commands: Partial<Record<Verb, FoundCommand>>,
): readonly FoundPackage[] {
  const named = Object.values(commands).flatMap(({ run, evidence }) => {
    const program = run.split(' ', 1)[0] ?? ''
    return ['make', 'bats', 'shellcheck', 'zsh'].includes(program) ? packagesOf(program, evidence) : []
  })
  const [test] = tests
  const zsh = scripts.find((path) => interpreterOf(tree, path) === 'zsh')
  return distinctPackages([
    ...named,
    ...(test ? packagesOf('bats', evidenceAt(test, undefined, nameOf(test))) : []),
    ...(zsh ? packagesOf('zsh', evidenceAt(zsh, 1, 'zsh')) : []),
  ])
}
