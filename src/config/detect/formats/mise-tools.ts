/** Tools by the names of mise, asdf and railpack: languages, package managers, and their packages. */
import { TOOL_PACKAGES } from '../../../bases/debian-packages.ts'
import type { Evidence } from '../../evidence.ts'
import type { Language } from '../finding.ts'
import { shortQuote } from '../project-files/parsed-file.ts'
import type { ExtraPackage, FormatDraft } from './format-file.ts'

const LANGUAGES: Readonly<Record<string, Language>> = {
  node: 'node',
  nodejs: 'node',
  python: 'python',
  go: 'go',
  golang: 'go',
  rust: 'rust',
  java: 'java',
  ruby: 'ruby',
  php: 'php',
  deno: 'deno',
  bun: 'bun',
  elixir: 'elixir',
  dotnet: 'dotnet',
  'dotnet-core': 'dotnet',
}

/** Tools that Debian packages under another name, or under their own. */
const DEBIAN: Readonly<Record<string, string>> = {
  cmake: 'cmake',
  fd: 'fd-find',
  gh: 'gh',
  'github-cli': 'gh',
  graphviz: 'graphviz',
  hadolint: '',
  jq: 'jq',
  just: 'just',
  make: 'make',
  maven: 'maven',
  neovim: 'neovim',
  ninja: 'ninja-build',
  pandoc: 'pandoc',
  protoc: 'protobuf-compiler',
  ripgrep: 'ripgrep',
  shellcheck: 'shellcheck',
  shfmt: 'shfmt',
  sqlite: 'sqlite3',
  tmux: 'tmux',
  yamllint: 'yamllint',
  yq: 'yq',
}

/** Tools that npm or pip has. */
const PUBLISHED: Readonly<Record<string, readonly [manager: ExtraPackage['manager'], name: string]>> = {
  pnpm: ['npm', 'pnpm'],
  yarn: ['npm', 'yarn'],
  prettier: ['npm', 'prettier'],
  biome: ['npm', '@biomejs/biome'],
  uv: ['pip', 'uv'],
  poetry: ['pip', 'poetry'],
  pdm: ['pip', 'pdm'],
  pipenv: ['pip', 'pipenv'],
  ruff: ['pip', 'ruff'],
  'pre-commit': ['pip', 'pre-commit'],
  actionlint: ['go', 'github.com/rhysd/actionlint/cmd/actionlint'],
}

const BACKENDS: Readonly<Record<string, ExtraPackage['manager']>> = {
  npm: 'npm',
  pipx: 'pip',
  cargo: 'cargo',
  go: 'go',
}

const NAMES: Readonly<Record<ExtraPackage['manager'], RegExp>> = {
  npm: /^(?:@[a-z0-9][\w.-]{0,60}\/)?[a-z0-9][\w.-]{0,100}$/i,
  pip: /^[A-Za-z0-9][\w.-]{0,100}$/,
  cargo: /^[A-Za-z][\w-]{0,60}$/,
  go: /^[a-z0-9][\w.-]{0,60}(?:\/[\w.~-]{1,80}){1,12}$/,
  nix: /^$/,
}
const SIGNS: Readonly<Record<ExtraPackage['manager'], string>> = {
  npm: '@',
  pip: '==',
  cargo: '@',
  go: '@v',
  nix: '',
}
const EXACT = /^\d{1,6}(?:\.\d{1,6}){2,3}$/

/** Names of mise that the languages' own version files cover. */
export function languageOfTool(name: string): Language | undefined {
  const plain = name.replace(/^core:/, '')
  return Object.hasOwn(LANGUAGES, plain) ? LANGUAGES[plain] : undefined
}

/** SECURITY: ENV-12. A name that its manager would not accept is noted: it never becomes an option. */
export function addMiseTool(
  format: FormatDraft,
  name: string,
  version: string | undefined,
  evidence: Evidence,
): void {
  const language = languageOfTool(name)
  if (language) {
    format.versions.push({ language, value: version ?? '*', rank: format.rank, evidence })
    return
  }
  const [, backend = '', rest = ''] = /^(npm|pipx|cargo|go):(.+)$/.exec(name) ?? []
  const [manager, published = ''] = Object.hasOwn(BACKENDS, backend)
    ? ([BACKENDS[backend], rest] as const)
    : Object.hasOwn(PUBLISHED, name)
      ? (PUBLISHED[name] ?? [])
      : []
  if (manager !== undefined && NAMES[manager].test(published)) {
    const exact = version !== undefined && EXACT.test(version) ? `${SIGNS[manager]}${version}` : ''
    format.extra.push({ manager, name: `${published}${exact}`, evidence })
    return
  }
  const known = Object.hasOwn(TOOL_PACKAGES, name) ? TOOL_PACKAGES[name] : undefined
  const packages = Object.hasOwn(DEBIAN, name) ? DEBIAN[name] : known?.join(' ')
  if (packages !== undefined && packages !== '') {
    for (const one of packages.split(' ')) format.packages.push({ name: one, evidence })
    return
  }
  const { file, line } = evidence
  format.notes.push(
    `${file}${line === undefined ? '' : `:${line}`}: the tool ${shortQuote(name, 60)} is not used: AgentPod has no source for it; install it in [lifecycle] setup in agentpod.toml`,
  )
}
