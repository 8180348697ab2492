/** Install scripts of the project, and whether they can run with only the manifests present. */
import { directoryOf, type FileTree, nameOf } from '../../file-tree.ts'
import { readTextFile } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import type { PackageJson } from './package-json.ts'

/** In the order in which they run. */
const LIFECYCLE = [
  'preinstall',
  'install',
  'postinstall',
  'prepublish',
  'preprepare',
  'prepare',
  'postprepare',
]
/** Yarn 2 and later run fewer. */
const BERRY_LIFECYCLE = ['preinstall', 'install', 'postinstall']

/** Programs that work without the project's sources, or have nothing to do. */
const HARMLESS: ReadonlySet<string> = new Set([
  'husky',
  'is-ci',
  'only-allow',
  'patch-package',
  'electron-builder',
  'electron-rebuild',
  'check-node-version',
  'check-engine',
  'opencollective',
  'opencollective-postinstall',
  'postinstall-postinstall',
  'yarn-deduplicate',
  'echo',
  'true',
  ':',
  'exit',
  'mkdir',
  'pinst',
])
const MOST_FILES = 50
/** Longer scripts are not analysed. */
const LONGEST = 1000
const DEEPEST = 5

export interface LifecycleScript {
  readonly manifest: PackageJson
  readonly name: string
  /** Files of the project that it names, and their imports. Undefined if it cannot run with these alone. */
  readonly files: readonly string[] | undefined
}

/** Every script of the packages that an install runs, in order. */
export function lifecycleScripts(
  tree: FileTree,
  packages: readonly PackageJson[],
  isBerry: boolean,
): readonly LifecycleScript[] {
  return packages.flatMap((manifest) =>
    (isBerry ? BERRY_LIFECYCLE : LIFECYCLE).flatMap((name) => {
      const script = manifest.scripts.get(name)
      if (script === undefined || script.trim() === '') return []
      return [{ manifest, name, files: filesOf(tree, manifest, script, 0) }]
    }),
  )
}

function filesOf(
  tree: FileTree,
  manifest: PackageJson,
  script: string,
  depth: number,
): readonly string[] | undefined {
  if (script.length > LONGEST || depth > DEEPEST) return undefined
  // The author expects that this may fail.
  if (/\|\|\s*(?:true|:|exit 0|echo\b[^|&]*)\s*$/.test(script)) return []
  const files: string[] = []
  for (const part of script.split(/&&|\|\||;/)) {
    const needed = filesOfPart(tree, manifest, part.trim(), depth)
    if (needed === undefined) return undefined
    files.push(...needed)
  }
  return [...new Set(files)].slice(0, MOST_FILES)
}

function filesOfPart(
  tree: FileTree,
  manifest: PackageJson,
  part: string,
  depth: number,
): readonly string[] | undefined {
  const words = withoutRunner(part.split(/\s+/).filter((word) => word !== ''))
  const [program = '', ...rest] = words
  if (program === '' || HARMLESS.has(program)) return []
  if (program === 'prisma' && rest[0] === 'generate') return prismaSchemas(tree, manifest)
  const ran = ranScript(words)
  if (ran !== undefined) {
    const inner = manifest.scripts.get(ran)
    return inner === undefined ? undefined : filesOf(tree, manifest, inner, depth + 1)
  }
  if (program !== 'node' && program !== 'sh' && program !== 'bash') return undefined
  const named = rest.find((word) => !word.startsWith('-'))
  return named === undefined || /build|compile|bundle/.test(nameOf(named))
    ? undefined
    : withImports(tree, manifest.directory, named)
}

/** `npx --yes husky` and `cross-env CI=1 husky` are husky. */
function withoutRunner(words: readonly string[]): readonly string[] {
  let from = 0
  const isAssignment = (word: string | undefined): boolean => /^\w+=/.test(word ?? '')
  while (isAssignment(words[from])) from++
  const word = words[from]
  if (word === 'npx' || word === 'bunx' || word === 'cross-env') from++
  else if (
    (word === 'pnpm' || word === 'npm' || word === 'yarn') &&
    /^(?:exec|dlx)$/.test(words[from + 1] ?? '')
  )
    from += 2
  else if ((word === 'yarn' || word === 'pnpm') && HARMLESS.has(words[from + 1] ?? '')) from++
  else return words.slice(from)
  while (words[from]?.startsWith('-') || isAssignment(words[from])) from++
  return words.slice(from)
}

function ranScript([program = '', verb = '', name]: readonly string[]): string | undefined {
  if (!['npm', 'pnpm', 'yarn', 'bun'].includes(program)) return undefined
  if (verb === 'run' || verb === 'run-script') return name
  return program === 'yarn' || program === 'pnpm' ? verb : undefined
}

export function prismaSchemas(tree: FileTree, { directory, data }: PackageJson): readonly string[] {
  const own =
    typeof data['prisma'] === 'object' ? (data['prisma'] as { schema?: unknown } | null)?.schema : undefined
  const places = [
    typeof own === 'string' ? own : '',
    'prisma/schema.prisma',
    'schema.prisma',
    'prisma.config.ts',
  ]
  return places.flatMap((place) => {
    const file = place === '' ? undefined : pathInProject(directory, place)
    return file !== undefined && tree.has(file) ? [file] : []
  })
}

const IMPORT = /(?:\brequire\(|\bfrom|\bimport\(?)\s{0,5}['"](\.{1,2}\/[^'"\n]{1,200})['"]/g

/** A script and the project files that it imports. Undefined if one does not exist. */
function withImports(tree: FileTree, directory: string, named: string): readonly string[] | undefined {
  const first = locate(tree, directory, named)
  if (first === undefined) return undefined
  const found = [first]
  for (const file of found) {
    if (found.length > MOST_FILES) return undefined
    for (const [, path = ''] of (readTextFile(tree, file) ?? '').matchAll(IMPORT)) {
      const imported = locate(tree, directoryOf(file), path)
      if (imported === undefined) return undefined
      if (!found.includes(imported)) found.push(imported)
    }
  }
  return found
}

function locate(tree: FileTree, directory: string, path: string): string | undefined {
  const plain = pathInProject(directory, path)
  if (plain === undefined) return undefined
  const endings = ['', '.js', '.mjs', '.cjs', '.ts', '.json', '/index.js', '/index.mjs', '/index.ts']
  return endings.map((ending) => `${plain}${ending}`).find((file) => tree.has(file))
}
