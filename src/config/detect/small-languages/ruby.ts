/** Ruby: applications and gems with Bundler. */
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, FoundTool, Verb } from '../finding.ts'
import {
  distinctPackages,
  type NamedLibrary,
  packagesFor,
  packagesOf,
  packageTable,
} from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, findLines, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { manifestAnywhere } from '../project-files/manifests.ts'
import { versionText } from '../project-files/parsed-file.ts'
import { filesBelow, MOST_FINDINGS, nearestAbove, pathInProject } from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'

const GEMS = packageTable({
  pg: 'libpq-dev',
  mysql2: 'default-libmysqlclient-dev',
  trilogy: 'libssl-dev',
  sqlite3: 'libsqlite3-dev pkg-config',
  nokogiri: 'libxml2-dev libxslt1-dev pkg-config',
  ffi: 'libffi-dev',
  psych: 'libyaml-dev',
  rmagick: 'libmagickwand-dev pkg-config',
  mini_magick: 'imagemagick',
  'ruby-vips': 'libvips-dev',
  image_processing: 'libvips-dev imagemagick',
  charlock_holmes: 'libicu-dev',
  curb: 'libcurl4-openssl-dev',
  rugged: 'cmake libssl-dev pkg-config',
  eventmachine: 'libssl-dev',
  puma: 'libssl-dev',
  tiny_tds: 'freetds-dev',
  'idn-ruby': 'libidn-dev',
  unf_ext: 'g++',
  snappy: 'libsnappy-dev cmake',
  'ffi-rzmq': 'libzmq3-dev',
  rdkafka: 'librdkafka-dev',
  poppler: 'libpoppler-glib-dev',
  wicked_pdf: 'wkhtmltopdf',
  'ruby-filemagic': 'libmagic-dev',
  redcarpet: '',
})

interface Ruby {
  readonly directory: string
  readonly gemfile: string
  readonly lockfile: string | undefined
  readonly gemspecs: readonly string[]
  readonly evidence: Evidence
  /** Gems from the Gemfile and the lockfile. */
  readonly gems: ReadonlyMap<string, Evidence>
}

const GEM = /^[ \t]*gem[ \t(]+["']([\w.-]{1,100})["']/
const LOCKED = /^ {4}([\w.-]{1,100}) \(([\w.-]{1,100})\)/

export const detectRuby: Detector = (tree) => {
  const gemfiles = ownFiles([...tree.named('Gemfile'), ...tree.named('gems.rb')])
  const directories = new Set(gemfiles.map(directoryOf))
  const gemspecs = ownFiles(tree.ending('.gemspec')).filter((path) => !directories.has(directoryOf(path)))
  const alone = gemspecs.filter((path) => gemfiles.length === 0 && directoryOf(path) === '').slice(0, 1)
  const found = [...gemfiles, ...alone].slice(0, MOST_FINDINGS)
  return found.length > 0 ? found.map((file) => findingOf(tree, rubyOf(tree, file))) : loneProgram(tree)
}

function rubyOf(tree: FileTree, file: string): Ruby {
  const directory = directoryOf(file)
  const lockfile = [joinPath(directory, 'Gemfile.lock'), joinPath(directory, 'gems.locked')].find((path) =>
    tree.has(path),
  )
  const gems = new Map<string, Evidence>()
  for (const [from, pattern] of [
    [file, GEM],
    [lockfile, LOCKED],
  ] as const)
    for (const { match, line } of from === undefined ? [] : findLines(linesIn(tree, from), pattern))
      if (match[1] && !gems.has(match[1])) gems.set(match[1], evidenceAt(from ?? '', line, match[0]))
  const source = findLine(linesIn(tree, file), /^[ \t]*(?:source|gem|gemspec|ruby)\b/)
  const gemspecs = tree.in(directory).filter((name) => name.endsWith('.gemspec'))
  return {
    directory,
    gemfile: file,
    lockfile,
    gemspecs: gemspecs.map((name) => joinPath(directory, name)),
    evidence: evidenceAt(file, source?.line, source?.match.input ?? 'gems for Bundler'),
    gems,
  }
}

function findingOf(tree: FileTree, ruby: Ruby): Finding {
  const { directory, evidence, lockfile } = ruby
  const served = serverOf(tree, ruby)
  const config = joinPath(directory, '.bundle/config')
  const notes = ['gems come from hosts without a preset: allow the sources that the Gemfile names']
  if (!lockfile) notes.push('there is no Gemfile.lock: the newest matching gems are installed')
  if (ruby.gems.has('execjs') && !tree.has(joinPath(directory, 'package.json')))
    notes.push('execjs runs JavaScript: the project may need Node.js')
  return {
    language: 'ruby',
    directory,
    evidence,
    versions: versionsOf(tree, ruby),
    manager: { name: 'bundler', evidence, beat: [] },
    tools: [bundlerOf(tree, ruby)],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, ruby),
    commands: commandsOf(tree, ruby, served),
    packages: packagesOfGems(tree, ruby),
    generated: [
      joinPath(directory, 'vendor/bundle'),
      ...(tree.has(config) ? [] : [joinPath(directory, '.bundle')]),
    ],
    presets: [],
    // The project's own configuration would override the one that setup writes.
    ...(tree.has(config) && {
      variables: { BUNDLE_PATH: `$WORKSPACE/${joinPath(directory, 'vendor/bundle')}` },
    }),
    ...(served?.port !== undefined && { ports: [{ port: served.port, evidence: served.evidence }] }),
    notes,
  }
}

function bundlerOf(tree: FileTree, { lockfile, evidence }: Ruby): FoundTool {
  const lines = lockfile ? linesIn(tree, lockfile) : []
  const heading = lines.find(({ text }) => text === 'BUNDLED WITH')
  const version = heading ? lines[heading.number]?.text.trim() : undefined
  if (!lockfile || !heading || !version || !/^\d[\w.]{0,20}$/.test(version))
    return { name: 'bundler', evidence }
  return {
    name: 'bundler',
    version,
    evidence: evidenceAt(lockfile, heading.number + 1, `BUNDLED WITH ${version}`),
  }
}

function versionsOf(tree: FileTree, { directory, gemfile, lockfile, gemspecs }: Ruby): readonly Candidate[] {
  const found: Candidate[] = []
  const file = nearestAbove(tree, directory, ['.ruby-version'])
  const named = file ? findLine(linesIn(tree, file), /^[ \t]*(?:ruby-)?(\d[\w.-]{0,40})[ \t]*$/) : undefined
  if (file && named) found.push(candidate(file, named.line, named.match[1], 'version file', named.match[0]))
  found.push(...versionFileCandidates(tree, directory, 'ruby'))
  const wanted = findLine(
    linesIn(tree, gemfile),
    /^[ \t]*ruby[ \t(]+["']([^"']{1,60})["'](?:[ \t]*,[ \t]*["']([^"']{1,60})["'])?/,
  )
  if (wanted) {
    const value = [wanted.match[1], wanted.match[2]].filter(Boolean).join(', ')
    found.push(
      candidate(gemfile, wanted.line, value, /^\d/.test(value) ? 'manifest' : 'range', wanted.match[0]),
    )
  }
  const locked = lockfile ? findLine(linesIn(tree, lockfile), /^ {3}ruby (\d[\d.]{0,20})/) : undefined
  if (lockfile && locked)
    found.push(candidate(lockfile, locked.line, locked.match[1], 'manifest', locked.match[0]))
  for (const spec of gemspecs) {
    const least = findLine(linesIn(tree, spec), /required_ruby_version[^"']{0,60}["']([^"']{1,60})["']/)
    if (least) found.push(candidate(spec, least.line, least.match[1], 'range', least.match[0]))
  }
  return found.filter(({ value }) => value !== '')
}

function candidate(
  file: string,
  line: number,
  value: string | undefined,
  rank: Candidate['rank'],
  said: string,
): Candidate {
  return { value: versionText(value) ?? '', rank, evidence: evidenceAt(file, line, said) }
}

/** A gemspec is a program; it usually reads the gem's version from another file. */
function inputsOf(tree: FileTree, { directory, gemfile, lockfile, gemspecs }: Ruby): readonly string[] {
  const lines = linesIn(tree, gemfile)
  const paths = lines.flatMap(
    ({ text }) => /\bpath(?::|[ \t]*=>)[ \t]*["']([^"']{1,300})["']/.exec(text)?.[1] ?? [],
  )
  const evaluated = lines.flatMap(
    ({ text }) => /\beval_gemfile[ \t(]+["']([^"']{1,300})["']/.exec(text)?.[1] ?? [],
  )
  const below = paths.flatMap((path) => pathInProject(directory, path) ?? [])
  const specs = [...gemspecs, ...below.flatMap((one) => filesBelow(tree, one, ['.gemspec'], 20))]
  const versions = specs.flatMap((spec) =>
    filesBelow(tree, joinPath(directoryOf(spec), 'lib'), ['version.rb'], 20),
  )
  const others = ['.ruby-version', '.tool-versions', '.bundle/config'].map((name) =>
    joinPath(directory, name),
  )
  const all = [
    gemfile,
    lockfile,
    ...specs,
    ...versions,
    ...evaluated.map((path) => pathInProject(directory, path)),
    ...others,
  ]
  return [...new Set(all)].filter((path): path is string => path !== undefined && tree.has(path))
}

interface Server {
  readonly run: string
  /** Undefined if it is not known whether it listens. */
  readonly port: number | undefined
  readonly evidence: Evidence
}

const SINATRA_PORT = 4567

function serverOf(tree: FileTree, { directory, gems }: Ruby): Server | undefined {
  const rails = gems.get('rails') ?? gems.get('railties')
  if (rails && tree.has(joinPath(directory, 'config/application.rb')))
    return { run: 'bundle exec rails server -b 0.0.0.0', port: 3000, evidence: rails }
  const jekyll = gems.get('jekyll')
  if (jekyll) return { run: 'bundle exec jekyll serve --host 0.0.0.0', port: 4000, evidence: jekyll }
  const rack = joinPath(directory, 'config.ru')
  if (!tree.has(rack)) return programOf(tree, directory, gems)
  const evidence = evidenceAt(rack, undefined, 'config.ru')
  if (gems.has('puma')) return { run: 'bundle exec puma -p 9292', port: 9292, evidence }
  return { run: 'bundle exec rackup -o 0.0.0.0', port: 9292, evidence }
}

const PROGRAMS = ['app.rb', 'main.rb', 'server.rb', 'index.rb']

function programOf(tree: FileTree, directory: string, gems: Ruby['gems']): Server | undefined {
  const name = PROGRAMS.find((one) => tree.has(joinPath(directory, one)))
  if (name === undefined) return undefined
  const port = gems.has('sinatra') ? SINATRA_PORT : undefined
  return {
    run: `bundle exec ruby ${name}`,
    port,
    evidence: evidenceAt(joinPath(directory, name), undefined, name),
  }
}

/** A program without a Gemfile. */
function loneProgram(tree: FileTree): readonly Finding[] {
  const name = PROGRAMS.find((one) => tree.has(one))
  if (name === undefined || manifestAnywhere(tree) !== undefined) return []
  const evidence = evidenceAt(name, undefined, name)
  const run = { run: `ruby ${name}`, evidence }
  return [
    {
      language: 'ruby',
      directory: '',
      evidence,
      versions: versionFileCandidates(tree, '', 'ruby'),
      tools: [],
      inputs: [],
      commands: { dev: run, start: run },
      packages: [],
      generated: [],
      presets: [],
    },
  ]
}

function commandsOf(
  tree: FileTree,
  ruby: Ruby,
  served: Server | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const { evidence, directory, gems } = ruby
  const test = testOf(tree, ruby)
  const rubocop = joinPath(directory, '.rubocop.yml')
  const standard = gems.get('standard')
  const lint = tree.has(rubocop)
    ? { run: 'bundle exec rubocop', evidence: evidenceAt(rubocop, undefined, '.rubocop.yml') }
    : standard && { run: 'bundle exec standardrb', evidence: standard }
  const run = served && { run: served.run, evidence: served.evidence }
  return {
    setup: { run: 'bundle config set --local path vendor/bundle && bundle install', evidence },
    ...(run && { dev: run }),
    ...(test && { test }),
    ...(lint && { lint }),
    ...(gems.has('jekyll') &&
      served && { build: { run: 'bundle exec jekyll build', evidence: served.evidence } }),
    ...(run && { start: run }),
  }
}

function testOf(tree: FileTree, { directory, gems }: Ruby): FoundCommand | undefined {
  const below = (name: string): boolean => tree.below(joinPath(directory, name)).length > 0
  const rspec = gems.get('rspec') ?? gems.get('rspec-rails') ?? gems.get('rspec-core')
  if (rspec && (below('spec') || tree.has(joinPath(directory, '.rspec'))))
    return { run: 'bundle exec rspec', evidence: rspec }
  const rails = gems.get('rails')
  if (rails && below('test')) return { run: 'bundle exec rails test', evidence: rails }
  const rakefile = joinPath(directory, 'Rakefile')
  if (tree.has(rakefile) && below('test'))
    return { run: 'bundle exec rake test', evidence: evidenceAt(rakefile, undefined, 'Rakefile') }
  return undefined
}

/** A gem that is locked as a prebuilt binary needs nothing to build. */
function packagesOfGems(tree: FileTree, { gems, lockfile, evidence }: Ruby) {
  const built = new Set(
    findLines(lockfile ? linesIn(tree, lockfile) : [], LOCKED).flatMap(({ match }) =>
      /-(?:x86_64|aarch64)-linux/.test(match[2] ?? '') ? [match[1] ?? ''] : [],
    ),
  )
  const named: NamedLibrary[] = [...gems].map(([name, where]) => ({ name, evidence: where }))
  const wanted = named.filter(({ name }) => !built.has(name))
  return distinctPackages([...packagesOf('build-essential', evidence), ...packagesFor(GEMS, wanted)])
}
