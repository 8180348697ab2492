/** Manifests that show that a directory belongs to a language with a package manager. */
import { directoryOf, type FileTree } from '../../file-tree.ts'
import { isIgnored } from './ignored-directories.ts'

const NAMES = [
  'package.json',
  'pyproject.toml',
  'setup.py',
  'setup.cfg',
  'requirements.txt',
  'Pipfile',
  'go.mod',
  'go.work',
  'Cargo.toml',
  'pom.xml',
  'build.gradle',
  'build.gradle.kts',
  'settings.gradle',
  'settings.gradle.kts',
  'Gemfile',
  'composer.json',
  'deno.json',
  'deno.jsonc',
  'mix.exs',
  'Package.swift',
  'pubspec.yaml',
  'build.sbt',
  'project.clj',
  'deps.edn',
  'stack.yaml',
  'gleam.toml',
  'shard.yml',
  'rebar.config',
  'dune-project',
  'Project.toml',
  'build.zig',
]
const SUFFIXES = [
  '.csproj',
  '.fsproj',
  '.vbproj',
  '.sln',
  '.slnx',
  '.cabal',
  '.gemspec',
  '.nimble',
  '.rockspec',
]

/** The manifest of a directory, if it has one. */
export function manifestIn(tree: FileTree, directory: string): string | undefined {
  return tree
    .in(directory)
    .find((name) => NAMES.includes(name) || SUFFIXES.some((suffix) => name.endsWith(suffix)))
}

/** The manifest nearest to the root, without samples and third-party code. */
export function manifestAnywhere(tree: FileTree): string | undefined {
  const all = [
    ...NAMES.flatMap((name) => tree.named(name)),
    ...SUFFIXES.flatMap((suffix) => tree.ending(suffix)),
  ]
  return all.find((path) => !isIgnored(directoryOf(path)))
}
