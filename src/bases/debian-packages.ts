/** Versions and packages in the Debian releases, as data with a date. */
import { SUITES, type Suite } from '../core/recipe.ts'
import type { PackagedTool } from './base-kind.ts'

export const DEBIAN_DATE = '2026-11-16'

export function isSuite(text: string): text is Suite {
  return (SUITES as readonly string[]).includes(text)
}

/**
 * SECURITY: CF-02. A package with an optional version, as apt's command line and preferences accept it: no
 * option, no path, no pattern, and no trailing sign that would remove the package.
 */
export const DEBIAN_PACKAGE = /^[a-z0-9][a-z0-9.+-]{0,126}[a-z0-9.+](?:=[A-Za-z0-9.+~:-]{1,100})?$/
export const DEBIAN_NAME = /^[a-z0-9][a-z0-9.+-]{0,126}[a-z0-9.+]$/
export const DEBIAN_VERSION = /^[A-Za-z0-9][A-Za-z0-9.+~:-]{0,100}$/

const C = ['build-essential', 'pkg-config']
const PYTHON = ['python3', 'python3-venv', 'python3-pip', 'python3-dev', ...C]
const RUST = ['rustc', 'cargo', ...C]
const RUBY = ['ruby-full', 'bundler', 'libyaml-dev', ...C]
const PHP = ['php-cli', 'php-xml', 'php-mbstring', 'php-curl', 'php-zip', 'php-sqlite3', 'composer', 'unzip']

function java(major: number): PackagedTool {
  // The real directory contains the architecture; this path is a link without it.
  return { version: String(major), packages: [`openjdk-${major}-jdk-headless`] }
}

const plain = (version: string, packages: readonly string[]): PackagedTool[] => [{ version, packages }]

/** Languages, by the names that detection has for them. */
export const DEBIAN: Readonly<Record<Suite, Readonly<Record<string, readonly PackagedTool[]>>>> = {
  bullseye: {
    python: plain('3.9', PYTHON),
    rust: plain('1.48', RUST),
    java: [java(11), java(17)],
    ruby: plain('2.7', RUBY),
    php: plain('7.4', PHP),
    elixir: plain('1.10', ['elixir', 'erlang-dev']),
    c: plain('10', C),
  },
  bookworm: {
    python: plain('3.11', PYTHON),
    go: plain('1.19', ['golang-go']),
    rust: plain('1.63', RUST),
    java: [java(17)],
    ruby: plain('3.1', RUBY),
    php: plain('8.2', PHP),
    elixir: plain('1.14', ['elixir', 'erlang-dev']),
    c: plain('12', C),
  },
  trixie: {
    python: plain('3.13', PYTHON),
    go: plain('1.24', ['golang-go']),
    rust: plain('1.85', RUST),
    java: [java(21), java(25)],
    ruby: plain('3.3', RUBY),
    php: plain('8.4', PHP),
    elixir: plain('1.18', ['elixir', 'erlang-dev']),
    c: plain('14', C),
  },
}

/** Servers, by the names of [services]. */
export const DEBIAN_SERVERS: Readonly<Record<Suite, Readonly<Record<string, PackagedTool>>>> = {
  bullseye: {
    postgres: { version: '13', packages: ['postgresql-13'] },
    redis: { version: '6.0', packages: ['redis-server'] },
    mariadb: { version: '10.5', packages: ['mariadb-server'] },
    memcached: { version: '1.6', packages: ['memcached'] },
    rabbitmq: { version: '3.8', packages: ['rabbitmq-server'] },
  },
  bookworm: {
    postgres: { version: '15', packages: ['postgresql-15'] },
    redis: { version: '7.0', packages: ['redis-server'] },
    mariadb: { version: '10.11', packages: ['mariadb-server'] },
    memcached: { version: '1.6', packages: ['memcached'] },
    rabbitmq: { version: '3.10', packages: ['rabbitmq-server'] },
  },
  trixie: {
    postgres: { version: '17', packages: ['postgresql-17'] },
    redis: { version: '8.0', packages: ['redis-server'] },
    mariadb: { version: '11.8', packages: ['mariadb-server'] },
    memcached: { version: '1.6', packages: ['memcached'] },
    rabbitmq: { version: '4.0', packages: ['rabbitmq-server'] },
  },
}

/** Tools that the machine itself may have, by the Debian package that would bring them. */
export const PACKAGE_TOOLS: Readonly<Record<string, readonly string[]>> = {
  'build-essential': ['gcc', 'make'],
  gcc: ['gcc'],
  'g++': ['gcc'],
  'libc6-dev': ['gcc'],
  make: ['make'],
  cmake: ['cmake'],
  meson: ['meson'],
  'ninja-build': ['ninja'],
  'pkg-config': ['pkg-config'],
  python3: ['python'],
  'python3-venv': ['python'],
  'python3-pip': ['python'],
  'python3-dev': ['python', 'gcc'],
  maven: ['maven'],
  gradle: ['gradle'],
  bundler: ['bundler'],
  composer: ['composer'],
  git: ['git'],
  bats: ['bats'],
  shellcheck: ['shellcheck'],
}

/** Debian's packages for tools that detection names. */
export const TOOL_PACKAGES: Readonly<Record<string, readonly string[]>> = {
  maven: ['maven'],
  gradle: ['gradle'],
  cmake: ['cmake', 'ninja-build'],
  ninja: ['ninja-build'],
  meson: ['meson', 'ninja-build'],
  make: ['make'],
  autotools: ['autoconf', 'automake', 'libtool', 'make'],
  bundler: ['bundler'],
  composer: ['composer', 'unzip'],
  bats: ['bats'],
  shellcheck: ['shellcheck'],
  just: ['just'],
  swift: ['swiftlang'],
  stack: ['haskell-stack'],
  ghc: ['ghc'],
  cabal: ['cabal-install'],
  lein: ['leiningen'],
  crystal: ['crystal', 'shards'],
  nim: ['nim'],
  dune: ['ocaml', 'ocaml-dune'],
  opam: ['ocaml', 'opam'],
  rebar3: ['erlang', 'rebar3'],
  erl: ['erlang', 'make'],
  lua: ['lua5.4'],
  luarocks: ['luarocks'],
  perl: ['perl'],
  cpanm: ['cpanminus', 'make'],
  rscript: ['r-base'],
  gfortran: ['gfortran'],
  cobc: ['gnucobol'],
}

/** Of tools that only some releases have: which. */
const TOOL_SUITES: Readonly<Record<string, readonly Suite[]>> = {
  just: ['trixie'],
  swift: ['trixie'],
  crystal: ['trixie'],
  nim: ['bullseye', 'bookworm'],
  rebar3: ['bookworm', 'trixie'],
  cobc: ['bookworm', 'trixie'],
}

export function hasTool(suite: Suite, tool: string): boolean {
  if (!Object.hasOwn(TOOL_PACKAGES, tool)) return false
  return (Object.hasOwn(TOOL_SUITES, tool) ? TOOL_SUITES[tool] : undefined)?.includes(suite) ?? true
}
