/** What packages of Nix are here: a language with its version, or packages of Debian. */
import type { Evidence } from '../../evidence.ts'
import type { Language } from '../finding.ts'
import { shortQuote } from '../project-files/parsed-file.ts'
import type { FormatDraft } from './format-file.ts'

/** The digits of the name are the version: `nodejs_20`, `python311`, `go_1_22`. */
const LANGUAGES: readonly (readonly [name: RegExp, language: Language])[] = [
  [/^nodejs(?:-slim)?(?:[_-](\d+)(?:_x)?)?$/, 'node'],
  [/^python(?:3(\d+)?)?(?:Full|Minimal)?$/, 'python'],
  [/^python@?(\d[\d.]*)$/, 'python'],
  [/^go(?:_(\d+_\d+))?$/, 'go'],
  [/^(?:rustc|cargo|rustup)$/, 'rust'],
  [/^(?:open)?jdk(\d+)?(?:_headless)?$/, 'java'],
  [/^(?:temurin-bin|zulu)-?(\d+)?$/, 'java'],
  [/^ruby(?:_(\d+_\d+))?$/, 'ruby'],
  [/^php(\d)(\d)$/, 'php'],
  [/^php$/, 'php'],
  [/^deno$/, 'deno'],
  [/^bun$/, 'bun'],
  [/^elixir(?:_(\d+_\d+))?$/, 'elixir'],
  [/^dotnet-sdk(?:_(\d+))?$/, 'dotnet'],
]

/** Packages of Debian that have the same programs or libraries. */
const DEBIAN: ReadonlyMap<string, string> = new Map(
  Object.entries({
    gcc: 'gcc libc6-dev',
    gnumake: 'make',
    'pkg-config': 'pkg-config',
    pkgconfig: 'pkg-config',
    cmake: 'cmake',
    ninja: 'ninja-build',
    meson: 'meson',
    clang: 'clang',
    autoconf: 'autoconf',
    automake: 'automake',
    libtool: 'libtool',
    openssl: 'libssl-dev openssl',
    zlib: 'zlib1g-dev',
    libffi: 'libffi-dev',
    libxml2: 'libxml2-dev',
    libxslt: 'libxslt1-dev',
    libyaml: 'libyaml-dev',
    sqlite: 'sqlite3 libsqlite3-dev',
    postgresql: 'libpq-dev postgresql-client',
    libpq: 'libpq-dev',
    libmysqlclient: 'default-libmysqlclient-dev',
    mysql: 'default-mysql-client',
    redis: 'redis-tools',
    ffmpeg: 'ffmpeg',
    'ffmpeg-full': 'ffmpeg',
    imagemagick: 'imagemagick',
    ghostscript: 'ghostscript',
    graphviz: 'graphviz',
    pandoc: 'pandoc',
    tesseract: 'tesseract-ocr',
    poppler_utils: 'poppler-utils',
    vips: 'libvips-dev',
    libjpeg: 'libjpeg-dev',
    libpng: 'libpng-dev',
    cairo: 'libcairo2-dev',
    pango: 'libpango1.0-dev',
    chromium: 'chromium',
    curl: 'curl',
    wget: 'wget',
    git: 'git',
    'git-lfs': 'git-lfs',
    gh: 'gh',
    jq: 'jq',
    ripgrep: 'ripgrep',
    fd: 'fd-find',
    tree: 'tree',
    unzip: 'unzip',
    zip: 'zip',
    rsync: 'rsync',
    shellcheck: 'shellcheck',
    bats: 'bats',
    bash: 'bash',
    zsh: 'zsh',
    tmux: 'tmux',
    htop: 'htop',
    gdb: 'gdb',
    maven: 'maven',
    just: 'just',
    protobuf: 'protobuf-compiler',
    cacert: 'ca-certificates',
    gnused: 'sed',
    gnugrep: 'grep',
    coreutils: 'coreutils',
    glibcLocales: 'locales',
  }),
)

const NAME = /^[A-Za-z_][\w.+@-]{0,100}$/

/** Adds a package of Nix: as a language, as packages of Debian, or with a note that it has no counterpart. */
export function addNixPackage(format: FormatDraft, written: string, evidence: Evidence): void {
  const [, plain = written] = /^(?:pkgs|nixpkgs|pkgs-\w+)[.#](.+)$/.exec(written) ?? []
  const [name = '', version] = plain.split('@', 2)
  for (const [pattern, language] of LANGUAGES) {
    const match = pattern.exec(name)
    if (!match) continue
    const value = version ?? nixVersion(name, match)
    format.versions.push({ language, value: value ?? '*', rank: format.rank, evidence })
    return
  }
  const packages = DEBIAN.get(name)
  if (packages !== undefined) {
    for (const one of packages.split(' ')) format.packages.push({ name: one, evidence })
    return
  }
  const { file, line } = evidence
  format.notes.push(
    `${file}${line === undefined ? '' : `:${line}`}: the Nix package ${shortQuote(plain, 60)} is not used: no package of Debian is known for it; where the base has nix, write nix = [${NAME.test(name) ? JSON.stringify(name) : '"..."'}] under [environment.packages]`,
  )
}

/** `311` of Python is 3.11, `82` of PHP is 8.2. */
function nixVersion(name: string, [, first, second]: RegExpExecArray): string | undefined {
  if (first === undefined) return undefined
  if (second !== undefined) return `${first}.${second}`
  const version = first.replaceAll('_', '.')
  return /^python3\d/.test(name) && !version.includes('.') ? `3.${version}` : version
}
