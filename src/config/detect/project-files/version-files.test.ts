import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { versionsOf } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import type { Language } from '../finding.ts'
import { versionFileCandidates } from './version-files.ts'

const CI = '.github/workflows/ci.yml'
const AGENT = '.github/workflows/copilot-setup-steps.yml'

type Row = readonly [
  what: string,
  language: Language,
  files: Readonly<Record<string, string>>,
  found: readonly string[],
  directory?: string,
]

function check(rows: readonly Row[]): void {
  for (const [what, language, files, found, directory = ''] of rows)
    test(what, () =>
      assert.deepEqual(versionsOf(versionFileCandidates(memoryTree(files), directory, language)), found),
    )
}

/** A workflow of one job that is tested with several versions. */
const matrix = (uses: string, key: string, values: string, more = ''): string =>
  `on: push\njobs:\n  test:\n    strategy:\n      matrix:\n        version: ${values}\n${more}    steps:\n      - uses: ${uses}\n        with:\n          ${key}: \${{ matrix.version }}\n`
const step = (uses: string, key: string, value: string): string =>
  `jobs:\n  test:\n    steps:\n      - uses: ${uses}\n        with:\n          ${key}: ${value}\n`

describe('a file of asdf’s', () => {
  const asdf = (line: string): Record<string, string> => ({ '.tool-versions': `# tools\n${line}\n` })
  const said = (...values: readonly string[]): string[] =>
    values.map((value) => `${value} version file .tool-versions:2`)
  check([
    ['names Node', 'node', asdf('nodejs 20.11.0'), said('20.11.0')],
    ['names several', 'python', asdf('python 3.12.1 2.7.18 # both'), said('3.12.1', '2.7.18')],
    ['names Go', 'go', asdf('golang   1.24.1'), said('1.24.1')],
    ['names Rust', 'rust', asdf('rust 1.80.0'), said('1.80.0')],
    ['names Java with who built it', 'java', asdf('java temurin-21.0.2+13.0.LTS'), said('21.0.2')],
    ['names another Java', 'java', asdf('java openjdk-17'), said('17')],
    ['names Ruby', 'ruby', asdf('ruby 3.3.0'), said('3.3.0')],
    ['names PHP', 'php', asdf('php 8.3.1'), said('8.3.1')],
    ['names Deno', 'deno', asdf('deno 2.0.0'), said('2.0.0')],
    ['names Bun', 'bun', asdf('bun 1.2.0'), said('1.2.0')],
    ['names .NET', 'dotnet', asdf('dotnet-core 8.0.100'), said('8.0.100')],
    ['names Elixir with what it runs on', 'elixir', asdf('elixir 1.16.0-otp-26'), said('1.16.0')],
    ['names another implementation, which is no version', 'python', asdf('python pypy3.10-7.3.12'), []],
    ['names a place instead', 'node', asdf('nodejs path:/opt/node system ref:main'), []],
    ['names another language only', 'go', asdf('nodejs 20'), []],
    [
      'ends its lines as Windows does',
      'node',
      { '.tool-versions': 'nodejs 20\r\n' },
      ['20 version file .tool-versions:1'],
    ],
    [
      'counts from below to above',
      'node',
      { '.tool-versions': 'nodejs 18', 'a/.tool-versions': 'nodejs 20', 'b/.tool-versions': 'nodejs 22' },
      ['20 version file a/.tool-versions:1', '18 version file .tool-versions:1'],
      'a/x',
    ],
  ])
})

describe('a file of mise’s', () => {
  check([
    ['names a version', 'node', { 'mise.toml': '[tools]\nnode = "22"\n' }, ['22 version file mise.toml:2']],
    ['names a number', 'java', { '.mise.toml': '[tools]\njava = 21\n' }, ['21 version file .mise.toml:2']],
    [
      'names a list and a table',
      'python',
      { '.config/mise.toml': '[tools]\npython = ["3.12", { version = "3.11" }]\n' },
      ['3.12 version file .config/mise.toml:2', '3.11 version file .config/mise.toml:2'],
    ],
    [
      'names a channel',
      'node',
      { 'mise/config.toml': '[tools]\n"core:node" = { version = "lts" }\n' },
      ['lts version file mise/config.toml:2'],
    ],
    [
      'names a prefix',
      'go',
      { 'mise.toml': '[tools]\ngo = "prefix:1.24"\n' },
      ['1.24 version file mise.toml:2'],
    ],
    ['is malformed', 'node', { 'mise.toml': '[tools\nnode = "22"' }, []],
    ['has keys that objects inherit', 'node', { 'mise.toml': '[tools.__proto__]\nnode = "22"\n' }, []],
  ])
})

describe('a workflow', () => {
  const at = (line: number, ...values: readonly string[]): string[] =>
    values.map((value) => `${value} ci ${CI}:${line}`)
  check([
    ['sets up Node', 'node', { [CI]: step('actions/setup-node@v4', 'node-version', '20.x') }, at(6, '20.x')],
    [
      'sets up Python by a matrix, unrounded',
      'python',
      { [CI]: matrix('actions/setup-python@v5', 'python-version', '[3.9, "3.10", 3.10]') },
      at(10, '3.9', '3.10'),
    ],
    [
      'has more in its matrix',
      'node',
      {
        [CI]: matrix(
          'actions/setup-node@v4',
          'node-version',
          '[18]',
          '        include:\n          - version: 22\n            os: ubuntu\n',
        ),
      },
      at(13, '18', '22'),
    ],
    [
      'names a variable',
      'go',
      { [CI]: `env:\n  GO: "1.23"\n${step('actions/setup-go@v5', 'go-version', `\${{ env.GO }}`)}` },
      at(8, '1.23'),
    ],
    [
      'computes what nobody can know',
      'node',
      { [CI]: step('actions/setup-node@v4', 'node-version', `\${{ fromJSON(needs.a.b) }}`) },
      [],
    ],
    [
      'names a file, which speaks for itself',
      'node',
      { [CI]: step('actions/setup-node@v4', 'node-version-file', '.nvmrc') },
      [],
    ],
    ['sets up Java', 'java', { [CI]: step('actions/setup-java@v4', 'java-version', "'21'") }, at(6, '21')],
    ['sets up Ruby', 'ruby', { [CI]: step('ruby/setup-ruby@v1', 'ruby-version', 'ruby-3.3') }, at(6, '3.3')],
    [
      'sets up Ruby by its file',
      'ruby',
      { [CI]: step('ruby/setup-ruby@v1', 'ruby-version', '.ruby-version') },
      [],
    ],
    ['sets up PHP', 'php', { [CI]: step('shivammathur/setup-php@v2', 'php-version', '8.3') }, at(6, '8.3')],
    ['sets up Deno', 'deno', { [CI]: step('denoland/setup-deno@v2', 'deno-version', 'v2.x') }, at(6, 'v2.x')],
    ['sets up Bun', 'bun', { [CI]: step('oven-sh/setup-bun@v2', 'bun-version', 'latest') }, at(6, 'latest')],
    [
      'sets up .NET in several lines',
      'dotnet',
      { [CI]: step('actions/setup-dotnet@v4', 'dotnet-version', '|\n            8.0.x\n            9.0.x') },
      at(6, '8.0.x', '9.0.x'),
    ],
    [
      'sets up Elixir',
      'elixir',
      { [CI]: step('erlef/setup-beam@v1', 'elixir-version', '1.17') },
      at(6, '1.17'),
    ],
    [
      'sets up Rust by the version of the action',
      'rust',
      { [CI]: 'jobs:\n  t:\n    steps:\n      - uses: dtolnay/rust-toolchain@1.80\n' },
      at(4, '1.80'),
    ],
    [
      'sets up Rust by what the action is given',
      'rust',
      { [CI]: step('dtolnay/rust-toolchain@master', 'toolchain', '1.81.0') },
      at(6, '1.81.0'),
    ],
    [
      'sets up Rust with nothing but a branch',
      'rust',
      { [CI]: 'jobs:\n  t:\n    steps:\n      - uses: dtolnay/rust-toolchain@master\n' },
      [],
    ],
    [
      'sets up Rust in the old way',
      'rust',
      { [CI]: step('actions-rs/toolchain@v1', 'toolchain', 'stable') },
      at(6, 'stable'),
    ],
    [
      'runs in a container',
      'python',
      { [CI]: 'jobs:\n  t:\n    container: python:3.12-slim\n' },
      at(3, '3.12'),
    ],
    [
      'says the same twice',
      'node',
      {
        [CI]: `${step('actions/setup-node@v4', 'node-version', '20')}      - uses: actions/setup-node@v4\n        with: { node-version: 20 }\n`,
      },
      at(6, '20'),
    ],
    ['is malformed', 'node', { [CI]: 'jobs: [\n' }, []],
    [
      'uses anchors',
      'node',
      {
        [CI]: `x: &node\n  uses: actions/setup-node@v4\n  with: { node-version: 22 }\njobs:\n  t:\n    steps:\n      - *node\n`,
      },
      [`22 ci ${CI}`],
    ],
  ])
})

describe('what prepares a machine for an agent', () => {
  const job = (name: string): string =>
    `jobs:\n  ${name}:\n    steps:\n      - uses: actions/setup-node@v4\n        with:\n          node-version: 22\n`
  check([
    [
      'is believed more than other workflows',
      'node',
      { [AGENT]: job('copilot-setup-steps'), [CI]: job('test') },
      [`22 agent file ${AGENT}:6`, `22 ci ${CI}:6`],
    ],
    ['has one job that counts', 'node', { [AGENT]: job('setup') }, []],
  ])
})

describe('a file of GitLab’s', () => {
  const file = '.gitlab-ci.yml'
  check([
    ['names an image for all', 'node', { [file]: 'image: node:20-alpine\n' }, [`20 ci ${file}:1`]],
    [
      'names one for a job',
      'java',
      { [file]: 'build:\n  image:\n    name: maven:3.9-eclipse-temurin-21\n' },
      [`21 ci ${file}:3`],
    ],
    [
      'names one of a registry',
      'python',
      { [file]: 'default:\n  image: registry.example.com:5000/library/python:3.11.4-slim@sha256:00\n' },
      [`3.11.4 ci ${file}:2`],
    ],
    ['names none with a version', 'node', { [file]: 'image: node:latest\n' }, []],
    ['names another one', 'node', { [file]: 'image: my/node-thing:20\n' }, []],
  ])
})
