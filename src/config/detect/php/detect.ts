/** PHP: projects of Composer's, and pages without any. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { listAt, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, FoundPackage, Verb } from '../finding.ts'
import { distinctPackages, packagesOf } from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { manifestAnywhere } from '../project-files/manifests.ts'
import {
  evidenceIn,
  malformedNote,
  type ParsedFile,
  readJsonFile,
  shortQuote,
  stringsAt,
  textAt,
  versionText,
} from '../project-files/parsed-file.ts'
import { MOST_FINDINGS, nearestAbove, pathInProject } from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'
import { PHP_EXTENSIONS } from './extensions.ts'

interface Composer {
  readonly directory: string
  readonly file: string
  readonly read: ParsedFile
  readonly lockfile: string | undefined
  readonly evidence: Evidence
}

const ANY_ADDRESS = '0.0.0.0:8000'

export const detectPhp: Detector = (tree) => {
  const files = ownFiles(tree.named('composer.json'))
  const found = files.slice(0, MOST_FINDINGS).flatMap((file) => {
    const read = readJsonFile(tree, file)
    return read ? [findingOf(tree, composerOf(tree, file, read))] : []
  })
  return found.length > 0 ? found : pages(tree)
}

function composerOf(tree: FileTree, file: string, read: ParsedFile): Composer {
  const directory = directoryOf(file)
  const lockfile = [joinPath(directory, 'composer.lock')].find((path) => tree.has(path))
  const name = textAt(read.data, 'name')
  const evidence = evidenceIn(
    file,
    read.text,
    ['"name"'],
    name ? `"name": "${name}"` : 'packages for Composer',
  )
  return { directory, file, read, lockfile, evidence }
}

function findingOf(tree: FileTree, composer: Composer): Finding {
  const { directory, evidence, lockfile, read, file } = composer
  const notes = [
    'packages come from hosts without a preset: allow the hosts of Composer and of the repositories',
  ]
  if (read.problem) notes.push(malformedNote(file, read.problem))
  if (!lockfile) notes.push('there is no composer.lock: the newest matching packages are installed')
  const extensions = extensionsOf(tree, composer)
  notes.push(...extensions.notes)
  const served = serverOf(tree, composer)
  return {
    language: 'php',
    directory,
    evidence,
    versions: versionsOf(tree, composer),
    manager: { name: 'composer', evidence, beat: [] },
    tools: [{ name: 'composer', evidence }],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, composer),
    ...stubsOf(tree, composer),
    commands: commandsOf(tree, composer, served),
    packages: distinctPackages([...packagesOf('php-cli unzip git', evidence), ...extensions.packages]),
    generated: [joinPath(directory, 'vendor')],
    presets: [],
    ...(served && { ports: [{ port: 8000, evidence: served.evidence }] }),
    notes,
  }
}

function versionsOf(tree: FileTree, { directory, file, read }: Composer): readonly Candidate[] {
  const platform = versionText(textAt(read.data, 'config', 'platform', 'php'))
  const range = versionText(textAt(read.data, 'require', 'php'))
  return [
    ...versionFile(tree, directory),
    ...versionFileCandidates(tree, directory, 'php'),
    ...(platform
      ? [
          {
            value: platform,
            rank: 'manifest' as const,
            evidence: evidenceIn(file, read.text, ['"platform"', '"php"'], `platform: "php": "${platform}"`),
          },
        ]
      : []),
    ...(range
      ? [
          {
            value: range,
            rank: 'range' as const,
            evidence: evidenceIn(file, read.text, ['"require"', '"php"'], `"php": "${range}"`),
          },
        ]
      : []),
  ]
}

function versionFile(tree: FileTree, directory: string): readonly Candidate[] {
  const file = nearestAbove(tree, directory, ['.php-version'])
  const found = file ? findLine(linesIn(tree, file), /^[ \t]*(\d[\d.]{0,20})[ \t]*$/) : undefined
  if (!file || !found) return []
  return [
    {
      value: found.match[1] ?? '',
      rank: 'version file',
      evidence: evidenceAt(file, found.line, found.match[0]),
    },
  ]
}

/** Extensions that the project and its locked packages require. */
function extensionsOf(tree: FileTree, { file, read, lockfile }: Composer) {
  const locked = lockfile ? readJsonFile(tree, lockfile) : undefined
  const packages = ['packages', 'packages-dev'].flatMap((key) => listAt(locked?.data, key))
  const wanted = new Map<string, Evidence>()
  const note = (name: string, evidence: Evidence): void => {
    if (/^ext-[a-z0-9_]{1,40}$/.test(name) && !wanted.has(name.slice(4))) wanted.set(name.slice(4), evidence)
  }
  for (const key of ['require', 'require-dev'])
    for (const name of Object.keys(objectAt(read.data, key)))
      note(name.toLowerCase(), evidenceIn(file, read.text, [`"${name}"`], name))
  for (const one of packages)
    for (const name of Object.keys(objectAt(one, 'require')))
      note(
        name.toLowerCase(),
        evidenceAt(
          lockfile ?? '',
          undefined,
          `${shortQuote(textAt(one, 'name') ?? 'a package')} needs ${name}`,
        ),
      )
  const found: FoundPackage[] = []
  const notes: string[] = []
  for (const [name, evidence] of wanted) {
    const names = PHP_EXTENSIONS.get(name)
    if (names === undefined) notes.push(`no known Debian package has the extension ${name}`)
    else found.push(...packagesOf(names, evidence))
  }
  return { packages: found, notes }
}

/** Packages may be part of the project itself. */
function inputsOf(tree: FileTree, { directory, file, read, lockfile }: Composer): readonly string[] {
  const beside = listAt(read.data, 'repositories').flatMap((one) => {
    const path =
      valueAt(one, 'type') === 'path' ? pathInProject(directory, textAt(one, 'url') ?? '') : undefined
    return path === undefined ? [] : [joinPath(path, 'composer.json')]
  })
  const all = [
    file,
    lockfile,
    joinPath(directory, 'auth.json.dist'),
    joinPath(directory, 'symfony.lock'),
    ...beside,
  ]
  return [...new Set(all)].filter((path): path is string => path !== undefined && tree.has(path))
}

/** Directories and files that Composer looks for classes in, and insists that they are there. */
function classMapped(tree: FileTree, { directory, read }: Composer): readonly string[] {
  const paths = ['autoload', 'autoload-dev'].flatMap((key) => stringsAt(read.data, key, 'classmap'))
  return paths.flatMap((written) => {
    const path = pathInProject(directory, written.replace(/\/$/, ''))
    if (path === undefined) return []
    if (tree.has(path)) return [path]
    const first = tree.below(path)[0]
    return first === undefined ? [] : [first]
  })
}

function stubsOf(tree: FileTree, composer: Composer): { stubs?: Readonly<Record<string, string>> } {
  const paths = classMapped(tree, composer)
  return paths.length === 0 ? {} : { stubs: Object.fromEntries(paths.map((path) => [path, ''])) }
}

function serverOf(tree: FileTree, { directory }: Composer): FoundCommand | undefined {
  const artisan = joinPath(directory, 'artisan')
  if (tree.has(artisan))
    return { run: 'php artisan serve --host=0.0.0.0', evidence: evidenceAt(artisan, undefined, 'artisan') }
  const page = ['public/index.php', 'web/index.php', 'html/index.php', 'index.php'].find((name) =>
    tree.has(joinPath(directory, name)),
  )
  if (page === undefined) return undefined
  const folder = directoryOf(page)
  const run = `php -S ${ANY_ADDRESS}${folder === '' ? '' : ` -t ${folder}`}`
  return { run, evidence: evidenceAt(joinPath(directory, page), undefined, 'index.php') }
}

function commandsOf(
  tree: FileTree,
  composer: Composer,
  served: FoundCommand | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const test = testOf(tree, composer)
  const lint = lintOf(tree, composer)
  const build = scriptOf(composer, ['build'])
  // The classes of directories that were stubs at the time are not in the map yet.
  const first =
    classMapped(tree, composer).length > 0 ? 'composer dump-autoload --quiet --no-scripts && ' : ''
  return {
    setup: {
      run: 'composer install --no-interaction --no-progress --no-scripts',
      evidence: composer.evidence,
    },
    ...(served && { dev: served }),
    ...(test && { test: { ...test, run: `${first}${test.run}` } }),
    ...(lint && { lint }),
    ...(build && { build }),
    ...(served && { start: served }),
  }
}

function scriptOf({ file, read }: Composer, names: readonly string[]): FoundCommand | undefined {
  const scripts = objectAt(read.data, 'scripts')
  const name = names.find((one) => Object.hasOwn(scripts, one))
  if (name === undefined) return undefined
  return {
    run: `composer ${shellWord(name)}`,
    evidence: evidenceIn(file, read.text, ['"scripts"', `"${name}"`], `"${name}"`),
  }
}

function testOf(tree: FileTree, composer: Composer): FoundCommand | undefined {
  const script = scriptOf(composer, ['test', 'tests', 'phpunit'])
  if (script) return script
  const { directory } = composer
  const configuration = firstOf(tree, directory, ['phpunit.xml', 'phpunit.xml.dist', 'phpunit.dist.xml'])
  if (tree.has(joinPath(directory, 'artisan')) && configuration)
    return { run: 'php artisan test', evidence: evidenceAt(configuration, undefined, 'phpunit') }
  if (requires(composer, 'pestphp/pest'))
    return { run: 'vendor/bin/pest', evidence: packageEvidence(composer, 'pestphp/pest') }
  if (configuration)
    return { run: 'vendor/bin/phpunit', evidence: evidenceAt(configuration, undefined, 'phpunit') }
  return undefined
}

function lintOf(tree: FileTree, composer: Composer): FoundCommand | undefined {
  const script = scriptOf(composer, ['lint', 'phpstan', 'cs-check', 'check-style'])
  if (script) return script
  const tools: readonly (readonly [files: readonly string[], run: string])[] = [
    [['phpstan.neon', 'phpstan.neon.dist', 'phpstan.dist.neon'], 'vendor/bin/phpstan analyse --no-progress'],
    [['psalm.xml', 'psalm.xml.dist'], 'vendor/bin/psalm'],
    [['.php-cs-fixer.php', '.php-cs-fixer.dist.php'], 'vendor/bin/php-cs-fixer fix --dry-run --diff'],
    [['phpcs.xml', 'phpcs.xml.dist', '.phpcs.xml', '.phpcs.xml.dist'], 'vendor/bin/phpcs'],
  ]
  for (const [names, run] of tools) {
    const file = firstOf(tree, composer.directory, names)
    if (file) return { run, evidence: evidenceAt(file, undefined, file.slice(file.lastIndexOf('/') + 1)) }
  }
  if (requires(composer, 'laravel/pint'))
    return { run: 'vendor/bin/pint --test', evidence: packageEvidence(composer, 'laravel/pint') }
  return undefined
}

function firstOf(tree: FileTree, directory: string, names: readonly string[]): string | undefined {
  return names.map((name) => joinPath(directory, name)).find((path) => tree.has(path))
}

function requires({ read }: Composer, name: string): boolean {
  return ['require', 'require-dev'].some((key) => valueAt(read.data, key, name) !== undefined)
}

function packageEvidence({ file, read }: Composer, name: string): Evidence {
  return evidenceIn(file, read.text, [`"${name}"`], name)
}

/** Pages that need no more than an interpreter. */
function pages(tree: FileTree): readonly Finding[] {
  const page = ['index.php', 'public/index.php'].find((path) => tree.has(path))
  if (page === undefined || manifestAnywhere(tree) !== undefined) return []
  const evidence = evidenceAt(page, undefined, 'index.php')
  const run = { run: `php -S ${ANY_ADDRESS}${page === 'index.php' ? '' : ' -t public'}`, evidence }
  return [
    {
      language: 'php',
      directory: '',
      evidence,
      versions: [...versionFile(tree, ''), ...versionFileCandidates(tree, '', 'php')],
      tools: [],
      inputs: [],
      commands: { dev: run, start: run },
      packages: packagesOf('php-cli', evidence),
      generated: [],
      presets: [],
      ports: [{ port: 8000, evidence }],
    },
  ]
}
