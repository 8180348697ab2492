import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryTree } from '../testing/memory-tree.ts'
import { detectOthers } from './others.ts'

/** Files, then the names that are found with their packages. */
const OTHERS: readonly (readonly [files: Readonly<Record<string, string>>, names: readonly string[]])[] = [
  [{ 'README.md': '' }, []],
  [{ 'Package.swift': '' }, ['Swift: ']],
  [{ 'build.zig': '' }, ['Zig: ']],
  [{ 'stack.yaml': '', 'x.cabal': '' }, ['Haskell: haskell-stack']],
  [{ 'x.cabal': '' }, ['Haskell: ghc cabal-install']],
  [{ 'build.sbt': '' }, ['Scala: ']],
  [{ 'project.clj': '' }, ['Clojure: leiningen']],
  [{ 'shard.yml': '' }, ['Crystal: ']],
  [{ 'pubspec.yaml': '' }, ['Dart: ']],
  [{ 'gleam.toml': 'name = "x"' }, ['Gleam: ']],
  [{ 'x.nimble': '' }, ['Nim: nim']],
  [{ 'dune-project': '', 'x.opam': '' }, ['OCaml: ocaml ocaml-dune opam']],
  [{ 'x.rockspec': '' }, ['Lua: lua5.4 luarocks']],
  [{ cpanfile: '' }, ['Perl: perl cpanminus']],
  [{ DESCRIPTION: 'Package: x\n' }, ['R: r-base']],
  [{ DESCRIPTION: 'what it is\n' }, []],
  [{ 'Project.toml': '[deps]\n' }, ['Julia: ']],
  [{ 'Project.toml': 'a = 1\n' }, []],
  [{ 'src/a.f90': '' }, ['Fortran: gfortran']],
  [{ 'a.cbl': '' }, ['COBOL: gnucobol']],
  [{ 'rebar.config': '' }, ['Erlang: erlang rebar3']],
  [{ 'flake.nix': '', 'a/Package.swift': '' }, ['Swift: ', 'Nix: nix-bin']],
  [{ 'vendor/x/build.zig': '', 'examples/build.zig': '' }, []],
]

describe('other languages', () => {
  for (const [files, names] of OTHERS)
    test(`${Object.keys(files).join(' and ')}: ${names.join(', ') || 'nothing'}`, () => {
      const found = detectOthers(memoryTree(files))
      assert.deepEqual(
        found.map(({ name, packages }) => `${name}: ${packages.map((one) => one.name).join(' ')}`),
        names,
      )
    })

  test('commands come with their evidence, and the note says what to do', () => {
    const [found] = detectOthers(memoryTree({ 'lib/build.zig': '' }))
    assert.deepEqual(found?.commands.test, {
      run: 'zig build test',
      evidence: { file: 'lib/build.zig', said: 'build.zig' },
    })
    assert.equal(found?.directory, 'lib')
    assert.match(found?.note ?? '', /must be installed by a setup command/)
  })
})
