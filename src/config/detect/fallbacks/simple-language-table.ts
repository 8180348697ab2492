/** A table of languages without a detector of their own: marker files, programs and usual commands. */
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { ClientPreset } from '../../presets/catalog.ts'
import type { Verb } from '../finding.ts'

/** The file by which a language is recognised. */
export interface MarkerFile {
  readonly name: string
  readonly text: string
  /** Whether the directory has a file. */
  has(path: string): boolean
}

export interface SimpleLanguage {
  readonly name: string
  /** File names, or suffixes if they start with a star. Preferred ones first. */
  readonly files: readonly string[]
  /** Must match the content if other languages use the same file name. */
  readonly proof?: RegExp
  /** Programs that it needs, by their names in the lists of tools; empty if there is nothing to run. */
  readonly tools: readonly string[]
  commands(made: MarkerFile): Partial<Record<Verb, string | undefined>>
  /** The files that `setup` reads and the directories that it creates. */
  readonly inputs?: readonly string[]
  readonly generated?: readonly string[]
  readonly preset?: ClientPreset
  /** The source of its packages, if it has no preset. */
  readonly hosts?: string
}

const none = (): Partial<Record<Verb, string>> => ({})

/** A command only under a condition, such as having dependencies to fetch. */
const when = (condition: boolean, run: string): string | undefined => (condition ? run : undefined)

export const SIMPLE_LANGUAGES: readonly SimpleLanguage[] = [
  {
    name: 'Swift',
    files: ['Package.swift'],
    tools: ['swift'],
    commands: ({ text }) => ({
      setup: when(/\.package\(/.test(text), 'swift package resolve'),
      build: 'swift build',
      test: 'swift test',
      start: when(/\.executable/.test(text), 'swift run'),
    }),
    inputs: ['Package.swift', 'Package.resolved'],
    generated: ['.build'],
    hosts: 'the repositories that Package.swift names',
  },
  {
    name: 'Zig',
    files: ['build.zig'],
    tools: ['zig'],
    commands: ({ text }) => ({
      build: 'zig build',
      test: when(/"test"/.test(text), 'zig build test'),
      start: when(/addRunArtifact|"run"/.test(text), 'zig build run'),
    }),
  },
  {
    name: 'Haskell',
    files: ['stack.yaml'],
    tools: ['stack'],
    commands: () => ({
      setup: 'stack build --only-dependencies --test',
      build: 'stack build',
      test: 'stack test',
      start: 'stack run',
    }),
    inputs: ['stack.yaml', 'stack.yaml.lock', 'package.yaml'],
    hosts: 'Stackage and Hackage',
  },
  {
    name: 'Haskell',
    files: ['cabal.project', '*.cabal'],
    tools: ['ghc', 'cabal'],
    commands: ({ text, name }) => ({
      build: 'cabal build all',
      test: when(name === 'cabal.project' || /^test-suite/im.test(text), 'cabal test all'),
      start: when(/^executable/im.test(text), 'cabal run'),
    }),
  },
  {
    name: 'Scala',
    files: ['build.sbt'],
    tools: ['sbt'],
    commands: () => ({ setup: 'sbt update', build: 'sbt compile', test: 'sbt test', start: 'sbt run' }),
    inputs: ['build.sbt', 'project/build.properties', 'project/plugins.sbt'],
    generated: ['target', 'project/target', 'project/project'],
    preset: 'maven',
  },
  {
    name: 'Scala',
    files: ['build.sc', 'build.mill'],
    proof: /mill/,
    tools: ['mill'],
    commands: () => ({ build: 'mill __.compile', test: 'mill __.test' }),
  },
  {
    name: 'Clojure',
    files: ['project.clj'],
    tools: ['lein'],
    commands: ({ text }) => ({
      setup: when(/:dependencies/.test(text), 'lein deps'),
      build: 'lein compile',
      test: 'lein test',
      start: when(/:main\b/.test(text), 'lein run'),
    }),
    inputs: ['project.clj'],
    preset: 'maven',
  },
  {
    name: 'Clojure',
    files: ['deps.edn'],
    tools: ['clojure'],
    commands: ({ text }) => ({
      setup: when(/:mvn\/version/.test(text), 'clojure -P'),
      test: when(/:test\b/.test(text), 'clojure -M:test'),
      start: when(/:run\b/.test(text), 'clojure -M:run'),
    }),
    inputs: ['deps.edn'],
    preset: 'maven',
  },
  {
    name: 'Crystal',
    files: ['shard.yml'],
    tools: ['crystal'],
    commands: ({ text }) => {
      const target = /^targets:\s*\n\s+([\w-]{1,60}):/m.exec(text)?.[1]
      return {
        setup: when(/^dependencies:/m.test(text), 'shards install'),
        build: 'shards build',
        test: 'crystal spec',
        start: when(target !== undefined, `shards build && bin/${target}`),
      }
    },
    inputs: ['shard.yml', 'shard.lock'],
    generated: ['lib'],
    hosts: 'the repositories that shard.yml names',
  },
  {
    name: 'Dart',
    files: ['pubspec.yaml'],
    tools: ['dart'],
    commands: ({ has }) => {
      const main = ['bin/server.dart', 'bin/main.dart'].find(has)
      return {
        setup: 'dart pub get',
        test: 'dart test',
        lint: 'dart analyze',
        start: main && `dart run ${main}`,
      }
    },
    inputs: ['pubspec.yaml', 'pubspec.lock'],
    generated: ['.dart_tool'],
    hosts: 'pub.dev',
  },
  {
    name: 'Gleam',
    files: ['gleam.toml'],
    proof: /^name\b/m,
    tools: ['gleam'],
    commands: () => ({
      setup: 'gleam deps download',
      build: 'gleam build',
      test: 'gleam test',
      start: 'gleam run',
    }),
    inputs: ['gleam.toml', 'manifest.toml'],
    generated: ['build'],
    hosts: 'Hex',
  },
  {
    name: 'Nim',
    files: ['*.nimble'],
    tools: ['nim'],
    commands: ({ text }) => ({
      build: 'nimble build',
      test: 'nimble test',
      start: when(/^bin\s*=/m.test(text), 'nimble run'),
    }),
  },
  {
    name: 'OCaml',
    files: ['dune-project'],
    tools: ['dune'],
    commands: ({ has }) => ({
      build: 'dune build',
      test: 'dune test',
      start: when(has('bin/main.ml'), 'dune exec bin/main.exe'),
    }),
  },
  {
    name: 'OCaml',
    files: ['*.opam'],
    tools: ['opam'],
    commands: none,
  },
  {
    name: 'Erlang',
    files: ['rebar.config'],
    tools: ['rebar3'],
    commands: ({ text }) => ({
      setup: when(/\{deps,\s*\[\s*[^\s\]]/.test(text), 'rebar3 get-deps'),
      build: 'rebar3 compile',
      test: 'rebar3 eunit',
    }),
    inputs: ['rebar.config', 'rebar.lock'],
    generated: ['_build'],
    hosts: 'Hex',
  },
  {
    name: 'Erlang',
    files: ['erlang.mk'],
    tools: ['erl'],
    commands: () => ({ build: 'make', test: 'make tests' }),
  },
  {
    name: 'Lua',
    files: ['*.rockspec'],
    tools: ['lua', 'luarocks'],
    commands: ({ has }) => ({ start: when(has('main.lua'), 'lua main.lua') }),
  },
  {
    name: 'Lua',
    files: ['main.lua', 'init.lua'],
    tools: ['lua'],
    commands: ({ name }) => ({ start: when(name === 'main.lua', 'lua main.lua') }),
  },
  {
    name: 'Perl',
    files: ['Makefile.PL'],
    tools: ['perl', 'make'],
    commands: () => ({ build: 'perl Makefile.PL && make', test: 'perl Makefile.PL && make test' }),
  },
  {
    name: 'Perl',
    files: ['cpanfile', 'dist.ini'],
    tools: ['perl', 'cpanm'],
    commands: ({ text, has, name }) => ({
      setup: when(name === 'cpanfile' && /requires/.test(text), 'cpanm --local-lib local --installdeps .'),
      test: 'prove -lr t',
      start: ['app.pl', 'main.pl', 'index.pl'].filter(has).map((main) => `perl ${main}`)[0],
    }),
    inputs: ['cpanfile', 'cpanfile.snapshot'],
    generated: ['local'],
    hosts: 'CPAN',
  },
  {
    name: 'R',
    files: ['DESCRIPTION'],
    proof: /^Package:[ \t]*\S/m,
    tools: ['rscript'],
    commands: none,
  },
  {
    name: 'R',
    files: ['renv.lock', '*.Rproj', 'app.R', 'main.R'],
    tools: ['rscript'],
    commands: ({ has }) => ({
      start: ['app.R', 'main.R'].filter(has).map((main) => `Rscript ${main}`)[0],
    }),
  },
  {
    name: 'Julia',
    files: ['Project.toml', 'JuliaProject.toml'],
    proof: /^(?:uuid|\[deps\]|\[compat\])/m,
    tools: ['julia'],
    commands: ({ has }) => ({
      setup: "julia --project -e 'using Pkg; Pkg.instantiate()'",
      test: "julia --project -e 'using Pkg; Pkg.test()'",
      start: when(has('main.jl'), 'julia --project main.jl'),
    }),
    inputs: ['Project.toml', 'Manifest.toml'],
    hosts: 'the registry of Julia',
  },
  {
    name: 'Fortran',
    files: ['fpm.toml'],
    tools: ['gfortran', 'fpm'],
    commands: () => ({ build: 'fpm build', test: 'fpm test', start: 'fpm run' }),
  },
  {
    name: 'Fortran',
    files: ['*.f90', '*.f95', '*.f03', '*.f08'],
    tools: ['gfortran'],
    commands: ({ name }) => compiled('gfortran -o', name),
  },
  {
    name: 'COBOL',
    files: ['main.cbl', 'index.cbl', '*.cbl', '*.cob'],
    tools: ['cobc'],
    commands: ({ name }) => compiled('cobc -x -o', name),
  },
]

/** A program in a single file. */
function compiled(compiler: string, file: string): Partial<Record<Verb, string>> {
  const build = `mkdir -p bin && ${compiler} bin/app ${shellWord(file)}`
  return { build, start: `${build} && bin/app` }
}
