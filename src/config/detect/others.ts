/** Languages without a toolchain of ours: what is seen of them is said, with what Debian has for them and how they are usually built. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, nameOf } from '../tree.ts'
import { isAside } from './aside.ts'
import { packagesOf } from './debian.ts'
import type { FoundCommand, FoundPackage, Verb } from './finding.ts'
import { evidenceAt } from './seek.ts'

export interface OtherLanguage {
  readonly name: string
  /** Relative to the project. */
  readonly directory: string
  readonly evidence: Evidence
  readonly note: string
  readonly packages: readonly FoundPackage[]
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
}

interface Rule {
  readonly name: string
  /** Names, or endings where they begin with a star. The better first. */
  readonly files: readonly string[]
  /** Packages of Debian's, parted by blanks; where there are none, it has to be installed otherwise. */
  readonly packages?: string
  readonly commands?: Partial<Readonly<Record<Verb, string>>>
}

const RULES: readonly Rule[] = [
  {
    name: 'Swift',
    files: ['Package.swift'],
    commands: { setup: 'swift package resolve', build: 'swift build', test: 'swift test' },
  },
  { name: 'Zig', files: ['build.zig'], commands: { build: 'zig build', test: 'zig build test' } },
  {
    name: 'Haskell',
    files: ['stack.yaml'],
    packages: 'haskell-stack',
    commands: { setup: 'stack build --only-dependencies --test', build: 'stack build', test: 'stack test' },
  },
  {
    name: 'Haskell',
    files: ['cabal.project', '*.cabal'],
    packages: 'ghc cabal-install',
    commands: {
      setup: 'cabal update && cabal build --only-dependencies --enable-tests all',
      build: 'cabal build all',
      test: 'cabal test all',
    },
  },
  {
    name: 'Scala',
    files: ['build.sbt'],
    commands: { setup: 'sbt update', build: 'sbt compile', test: 'sbt test' },
  },
  {
    name: 'Scala',
    files: ['build.sc', 'build.mill'],
    commands: { build: 'mill __.compile', test: 'mill __.test' },
  },
  {
    name: 'Clojure',
    files: ['project.clj'],
    packages: 'leiningen',
    commands: { setup: 'lein deps', build: 'lein compile', test: 'lein test' },
  },
  { name: 'Clojure', files: ['deps.edn'], packages: 'clojure', commands: { setup: 'clojure -P' } },
  {
    name: 'Crystal',
    files: ['shard.yml'],
    commands: { setup: 'shards install', build: 'shards build', test: 'crystal spec' },
  },
  {
    name: 'Dart',
    files: ['pubspec.yaml'],
    commands: { setup: 'dart pub get', test: 'dart test', lint: 'dart analyze' },
  },
  {
    name: 'Gleam',
    files: ['gleam.toml'],
    commands: { setup: 'gleam deps download', build: 'gleam build', test: 'gleam test' },
  },
  {
    name: 'Nim',
    files: ['*.nimble'],
    packages: 'nim',
    commands: { setup: 'nimble install -y --depsOnly', build: 'nimble build', test: 'nimble test' },
  },
  {
    name: 'OCaml',
    files: ['dune-project'],
    packages: 'ocaml ocaml-dune opam',
    commands: { build: 'dune build', test: 'dune test' },
  },
  {
    name: 'OCaml',
    files: ['*.opam'],
    packages: 'ocaml opam',
    commands: { setup: 'opam install . --deps-only --with-test -y' },
  },
  {
    name: 'Erlang',
    files: ['rebar.config'],
    packages: 'erlang rebar3',
    commands: { setup: 'rebar3 get-deps', build: 'rebar3 compile', test: 'rebar3 eunit' },
  },
  {
    name: 'Erlang',
    files: ['erlang.mk'],
    packages: 'erlang make',
    commands: { setup: 'make deps', build: 'make', test: 'make tests' },
  },
  {
    name: 'Lua',
    files: ['*.rockspec'],
    packages: 'lua5.4 luarocks',
    commands: { setup: 'luarocks make --local --deps-only' },
  },
  { name: 'Lua', files: ['.luarc.json', '.luacheckrc', 'main.lua', 'init.lua'], packages: 'lua5.4' },
  {
    name: 'Perl',
    files: ['Makefile.PL'],
    packages: 'perl make',
    commands: { build: 'perl Makefile.PL && make', test: 'perl Makefile.PL && make test' },
  },
  {
    name: 'Perl',
    files: ['Build.PL'],
    packages: 'perl libmodule-build-perl',
    commands: { build: 'perl Build.PL && ./Build', test: 'perl Build.PL && ./Build test' },
  },
  {
    name: 'Perl',
    files: ['cpanfile', 'dist.ini'],
    packages: 'perl cpanminus',
    commands: { setup: 'cpanm --local-lib local --installdeps .', test: 'prove -lr t' },
  },
  { name: 'R', files: ['DESCRIPTION', 'renv.lock', '*.Rproj'], packages: 'r-base' },
  {
    name: 'Julia',
    files: ['Project.toml', 'JuliaProject.toml'],
    commands: {
      setup: "julia --project -e 'using Pkg; Pkg.instantiate()'",
      test: "julia --project -e 'using Pkg; Pkg.test()'",
    },
  },
  {
    name: 'Fortran',
    files: ['fpm.toml'],
    packages: 'gfortran',
    commands: { build: 'fpm build', test: 'fpm test' },
  },
  { name: 'Fortran', files: ['*.f90', '*.f95', '*.f03', '*.f08'], packages: 'gfortran' },
  { name: 'COBOL', files: ['*.cbl', '*.cob'], packages: 'gnucobol' },
  { name: 'Nix', files: ['flake.nix', 'shell.nix', 'default.nix'], packages: 'nix-bin' },
]

/** Files that serve more than one language, and what tells that they serve this one. */
const PROOFS: ReadonlyMap<string, RegExp> = new Map([
  ['DESCRIPTION', /^Package:[ \t]*\S/m],
  ['Project.toml', /^(?:uuid|\[deps\]|\[compat\])/m],
  ['gleam.toml', /^name\b/m],
  ['build.sc', /mill/],
])

/** Each rule once, where it is nearest to the root. A rule for a language that an earlier one saw in the same directory is silent. */
export function detectOthers(tree: FileTree): readonly OtherLanguage[] {
  const found: OtherLanguage[] = []
  for (const rule of RULES) {
    const file = fileFor(tree, rule)
    if (file === undefined) continue
    const directory = directoryOf(file)
    if (found.some((one) => one.name === rule.name && one.directory === directory)) continue
    found.push(otherOf(rule, file, directory))
  }
  return found
}

function fileFor(tree: FileTree, { files }: Rule): string | undefined {
  for (const name of files) {
    const paths = name.startsWith('*') ? tree.ending(name.slice(1)) : tree.named(name)
    const proof = PROOFS.get(name)
    const path = paths.find(
      (one) => !isAside(directoryOf(one)) && (proof?.test(tree.read(one) ?? '') ?? true),
    )
    if (path !== undefined) return path
  }
  return undefined
}

function otherOf(
  { name, packages = '', commands = {} }: Rule,
  file: string,
  directory: string,
): OtherLanguage {
  const evidence = evidenceAt(file, undefined, nameOf(file))
  const how =
    packages === ''
      ? 'must be installed by a setup command of yours'
      : `is installed from Debian (${packages})`
  return {
    name,
    directory,
    evidence,
    note: `${file} is a sign of ${name}, for which there is no toolchain of AgentPod's: it ${how}`,
    packages: packagesOf(packages, evidence),
    commands: Object.fromEntries(Object.entries(commands).map(([verb, run]) => [verb, { run, evidence }])),
  }
}
