import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detect } from '../detect.ts'
import type { Verb } from '../finding.ts'
import { detectSimpleLanguages } from './simple-languages.ts'

/** Files, then the languages that are found with their programs, then commands. */
const OTHERS: readonly (readonly [
  files: Readonly<Record<string, string>>,
  names: readonly string[],
  commands?: Partial<Record<Verb, string | undefined>>,
])[] = [
  [{ 'README.md': '' }, []],
  [{ 'Package.swift': '.executableTarget()' }, ['Swift: swift'], { start: 'swift run', setup: undefined }],
  [{ 'Package.swift': '.package(url: "x")' }, ['Swift: swift'], { setup: 'swift package resolve' }],
  [{ 'build.zig': 'b.addRunArtifact(exe)' }, ['Zig: zig'], { start: 'zig build run', test: undefined }],
  [{ 'stack.yaml': '', 'x.cabal': '' }, ['Haskell: stack'], { start: 'stack run' }],
  [{ 'x.cabal': 'executable x\n' }, ['Haskell: ghc cabal'], { start: 'cabal run' }],
  [{ 'build.sbt': '' }, ['Scala: sbt'], { start: 'sbt run', setup: 'sbt update' }],
  [
    { 'project.clj': ':main x :dependencies []' },
    ['Clojure: lein'],
    { start: 'lein run', setup: 'lein deps' },
  ],
  [
    { 'deps.edn': '{:aliases {:run {}}}' },
    ['Clojure: clojure'],
    { start: 'clojure -M:run', setup: undefined },
  ],
  [{ 'shard.yml': 'targets:\n  web:\n' }, ['Crystal: crystal'], { start: 'shards build && bin/web' }],
  [{ 'pubspec.yaml': '', 'bin/server.dart': '' }, ['Dart: dart'], { start: 'dart run bin/server.dart' }],
  [{ 'gleam.toml': 'name = "x"' }, ['Gleam: gleam'], { start: 'gleam run' }],
  [{ 'x.nimble': 'bin = @["x"]' }, ['Nim: nim'], { start: 'nimble run' }],
  [{ 'dune-project': '', 'x.opam': '' }, ['OCaml: dune'], { start: undefined }],
  [{ 'x.rockspec': '', 'main.lua': '' }, ['Lua: lua luarocks'], { start: 'lua main.lua' }],
  [{ cpanfile: '', 'app.pl': '' }, ['Perl: perl cpanm'], { start: 'perl app.pl', setup: undefined }],
  [{ DESCRIPTION: 'Package: x\n' }, ['R: rscript']],
  [{ DESCRIPTION: 'what it is\n' }, []],
  [{ 'app.R': '' }, ['R: rscript'], { start: 'Rscript app.R' }],
  [{ 'Project.toml': '[deps]\n', 'main.jl': '' }, ['Julia: julia'], { start: 'julia --project main.jl' }],
  [{ 'Project.toml': 'a = 1\n' }, []],
  [{ 'src/a.f90': '' }, ['Fortran: gfortran'], { build: 'mkdir -p bin && gfortran -o bin/app a.f90' }],
  [{ 'a b.cbl': '' }, ['COBOL: cobc'], { start: "mkdir -p bin && cobc -x -o bin/app 'a b.cbl' && bin/app" }],
  [{ 'rebar.config': '{deps, []}.' }, ['Erlang: rebar3'], { setup: undefined }],
  [{ 'flake.nix': '', 'a/Package.swift': '' }, ['Swift: swift']],
  [{ 'vendor/x/build.zig': '', 'examples/build.zig': '' }, []],
]

describe('other languages', () => {
  for (const [files, names, commands = {}] of OTHERS)
    test(`${Object.keys(files).join(' and ')}: ${names.join(', ') || 'nothing'}`, () => {
      const found = detectSimpleLanguages(memoryTree(files))
      assert.deepEqual(
        found.map(({ label, tools }) => `${label}: ${tools.map(({ name }) => name).join(' ')}`),
        names,
      )
      for (const [verb, run] of Object.entries(commands))
        assert.equal(found[0]?.commands[verb as Verb]?.run, run, verb)
    })

  test('simple languages are set up only if no other language is found; otherwise a note mentions them', () => {
    const files = { 'lib/build.zig': '', 'flake.nix': '' }
    const alone = detect(memoryTree(files))
    assert.deepEqual(
      alone.findings.map(({ label, directory }) => [label, directory]),
      [['Zig', 'lib']],
    )
    assert.deepEqual(alone.findings[0]?.commands.build, {
      run: 'zig build',
      evidence: { file: 'lib/build.zig', said: 'build.zig' },
    })
    assert.match(alone.notes.join(), /^flake\.nix is not used: it has no plain list of packages/)
    const beside = detect(memoryTree({ ...files, 'go.mod': 'module x\n' }))
    assert.deepEqual(
      beside.findings.map(({ language }) => language),
      ['go'],
    )
    assert.match(beside.notes.join(), /lib\/build\.zig suggests Zig, which is not set up/)
  })
})
