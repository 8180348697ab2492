/**
 * One failing command in every script that we generate: if any command of a script fails, the script fails.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { agentNamed } from '../../src/agents/agents.ts'
import { agentRecipe } from '../../src/agents/install.ts'
import { detect } from '../../src/config/detect/detect.ts'
import { recipeOf } from '../../src/config/plan/recipe/recipe.ts'
import { resolvePlan } from '../../src/config/plan/resolve/resolve.ts'
import { memoryTree } from '../../src/config/testing/memory-tree.ts'
import { inputOf, lists, machine, presets, REGISTRY, written } from '../../src/config/testing/plan-parts.ts'
import { baselineScript, changesScript } from '../../src/sync/changes.ts'
import { prepareScript } from '../../src/sync/git/state/prepare-script.ts'
import { type Script, trials } from '../support/failing-commands.ts'

/** Every trial but those of programs that may fail ends with another code than 0. */
function holds(script: Script, o: { readonly mayFail?: readonly RegExp[] } = {}): number {
  const [whole, ...failing] = trials(script)
  assert.equal(whole?.code, 0, `with nothing failing it succeeds: ${whole?.said}`)
  assert.ok(failing.length > 0, 'it calls something')
  for (const { failed = '', code, said } of failing) {
    const isLost = code === 0 && !o.mayFail?.some((pattern) => pattern.test(failed))
    assert.ok(!isLost, `the failure of \`${failed}\` was lost: ${said}`)
  }
  return failing.length
}

const LOCK = JSON.stringify({
  lockfileVersion: 3,
  packages: { '': {}, 'node_modules/bcrypt': { hasInstallScript: true } },
})
const PACKAGE = '{"name":"a","dependencies":{"bcrypt":"1"},"scripts":{"postinstall":"make all"}}'
const PROJECT = '[project]\nname = "a"\nversion = "1"\ndependencies = ["six"]\n'
const POETRY = '[tool.poetry]\nname = "a"\nversion = "1"\n[tool.poetry.dependencies]\nsix = "*"\n'

/** A project of each package manager. Its first command is the one that the step begins with. */
const MANAGERS: readonly {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly first: RegExp
  readonly mayFail?: readonly RegExp[]
}[] = [
  { name: 'npm', files: { 'package.json': PACKAGE, 'package-lock.json': LOCK }, first: /^npm ci/ },
  {
    name: 'npm, an old lockfile',
    files: { 'package.json': PACKAGE, 'package-lock.json': '{}' },
    first: /^npm ci/,
  },
  { name: 'npm, no lockfile', files: { 'package.json': PACKAGE }, first: /^npm install/ },
  {
    name: 'pnpm',
    files: { 'package.json': PACKAGE, 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" },
    first: /^pnpm install/,
  },
  {
    name: 'yarn',
    files: { 'package.json': PACKAGE, 'yarn.lock': '# yarn lockfile v1\n' },
    first: /^yarn install/,
  },
  {
    name: 'yarn-berry',
    files: { 'package.json': PACKAGE, 'yarn.lock': '__metadata:\n  version: 8\n', '.yarnrc.yml': '' },
    first: /^yarn install/,
  },
  { name: 'bun', files: { 'package.json': PACKAGE, 'bun.lock': '{}' }, first: /^bun install/ },
  {
    name: 'deno',
    files: { 'deno.json': '{"imports":{"x":"npm:x@1"}}', 'deno.lock': '{}' },
    first: /^deno install/,
  },
  {
    name: 'pip',
    files: { 'requirements.txt': 'six\n', 'requirements-dev.txt': 'pytest\n' },
    first: /^python3? -m venv/,
  },
  {
    name: 'pip, a package',
    files: { 'pyproject.toml': `${PROJECT}[build-system]\nrequires = ["setuptools"]\n`, 'a/__init__.py': '' },
    first: /^python3? -m venv/,
    mayFail: [/--no-deps/],
  },
  { name: 'uv', files: { 'pyproject.toml': PROJECT, 'uv.lock': 'version = 1\n' }, first: /^uv sync/ },
  { name: 'uv, no lockfile', files: { 'pyproject.toml': `${PROJECT}[tool.uv]\n` }, first: /^uv venv/ },
  { name: 'poetry', files: { 'pyproject.toml': POETRY, 'poetry.lock': '' }, first: /^python3? -m venv/ },
  {
    name: 'pdm',
    files: { 'pyproject.toml': `${PROJECT}[tool.pdm]\ndistribution = false\n`, 'pdm.lock': '' },
    first: /^python3? -m venv/,
  },
  {
    name: 'pipenv',
    files: { Pipfile: '[packages]\nsix = "*"\n', 'Pipfile.lock': '{}' },
    first: /^python3? -m venv/,
  },
  {
    name: 'cargo',
    files: { 'Cargo.toml': '[package]\nname = "a"\nversion = "0.1.0"\n', 'src/main.rs': 'fn main() {}' },
    first: /^cargo fetch/,
    mayFail: [/^cargo (?:test|build|clean)/],
  },
  {
    name: 'go',
    files: {
      'go.mod': 'module a\n\ngo 1.24\n\nrequire example.com/b v1.0.0\n',
      'main.go': 'package main\nfunc main() {}\n',
    },
    first: /^go mod download/,
    // Compiling ahead spares time and is no condition.
    mayFail: [/^go (?:list|build)/, /^xargs/],
  },
  {
    name: 'maven',
    files: {
      'pom.xml': '<project><artifactId>a</artifactId><groupId>g</groupId><version>1</version></project>',
    },
    first: /^mkdir -p src\/main\/java/,
    // Building from stubs may fail as long as everything can be fetched; directories that are not empty stay.
    mayFail: [/^mvn .*package$/, /^rmdir/],
  },
  { name: 'gradle', files: { 'build.gradle': "plugins { id 'java' }\n" }, first: /^mktemp/ },
  {
    name: 'bundler',
    files: { Gemfile: "source 'https://rubygems.org'\ngem 'rake'\n" },
    first: /^bundle config/,
  },
  { name: 'composer', files: { 'composer.json': '{"require":{"a/b":"1"}}' }, first: /^composer install/ },
  {
    name: 'mix',
    files: {
      'mix.exs':
        'defmodule A.MixProject do\n  use Mix.Project\n  def project, do: [app: :a, deps: []]\nend\n',
    },
    first: /^mix local\.hex/,
    mayFail: [/^mix deps\.compile/],
  },
  {
    name: 'dotnet',
    files: {
      'a.csproj':
        '<Project Sdk="Microsoft.NET.Sdk"><PropertyGroup><TargetFramework>net8.0</TargetFramework></PropertyGroup></Project>',
      '.config/dotnet-tools.json': '{}',
    },
    first: /^dotnet restore/,
  },
]

const PROGRAMS =
  'npm pnpm yarn bun deno node python python3 pip uv poetry pdm pipenv cargo go mvn gradle bundle composer mix dotnet apt-get apt-cache curl tar unzip setpriv initdb mariadb-install-db useradd chown make sha512sum ldd redis-server'.split(
    ' ',
  )
const TOOLS =
  'python 3.12.1|node 22.1.0|npm 10.0.0|pnpm 9.0.0|yarn 1.22.0|bun 1.2.0|deno 2.3.1|uv 0.8.0|poetry 1.8.0|pdm 2.0.0|pipenv 2024.0.0|cargo 1.80.0|rust 1.80.0|go 1.24.3|java 21.0.1|maven 3.9.0|gradle 8.8.0|ruby 3.3.0|bundler 2.5.0|php 8.3.0|composer 2.7.0|elixir 1.17.0|erlang 26.0.0|dotnet 8.0.100'.split(
    '|',
  )

function playing(run: string): string {
  return run
    .replaceAll('/home/user', '{place}')
    .replaceAll('.venv/bin/', '')
    .replaceAll(/\/(?:opt|etc|var|usr|root)\//g, '{place}$&')
}

describe('the setup of every package manager', () => {
  for (const { name, files, first, mayFail = [] } of MANAGERS)
    test(`${name}: the setup step fails when any of its commands fails`, async () => {
      const tree = memoryTree(files)
      const plan = await resolvePlan({
        ...inputOf({
          machine: machine(...TOOLS),
          lists: lists(REGISTRY),
          toml: '[environment]\nbase = "host"\n',
        }),
        detected: detect(tree),
      })
      const step = recipeOf(plan, presets()).steps.find((one) => one.name.startsWith('dependencies/'))
      assert.ok(step, 'there is a setup')
      const script: Script = {
        run: playing(step.run),
        played: PROGRAMS,
        prepare: (place) => write(join(place, 'shop'), { ...files, ...step.inputs?.stubs }),
      }
      holds(script, { mayFail })
      const begun = trials(script).map(({ failed }) => failed ?? '')
      assert.ok(
        begun.some((call) => first.test(call)),
        `${first} is among ${begun.join('; ')}`,
      )
    })
})

describe('setup commands of agentpod.toml', () => {
  for (const setup of ['["npm ci && node a", "go b"]', '"npm ci && node a"', '"""npm ci\nnode a"""'])
    test(`the setup ${setup.replaceAll('\n', ' ')} fails when any of its commands fails`, async () => {
      const plan = await resolvePlan(
        inputOf({ toml: `[environment]\nbase = "host"\n[lifecycle]\nsetup = ${setup}\n` }),
      )
      const [step] = recipeOf(plan, presets()).steps
      holds({ run: playing(step?.run ?? ''), played: PROGRAMS })
    })
})

function write(directory: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text, { mode: 0o755 })
  }
}

describe('build steps before the setup', () => {
  const toml = `[environment]
base = "debian"
[environment.languages]
node = "22"
go = "1.24"
deno = "2"
[environment.packages]
apt = ["jq"]
npm = ["typescript@5"]
pip = ["ruff"]
go = ["example.com/tool@v1"]
[services]
postgres = {}
redis = {}
mariadb = {}
`
  for (const name of [
    'system',
    'node',
    'go',
    'deno',
    'packages/npm',
    'packages/pip',
    'packages/go',
    'services',
  ])
    test(`the build step ${name} fails when any of its commands fails`, async () => {
      const plan = await resolvePlan({ ...inputOf({ toml }), file: written(toml) })
      const { steps } = recipeOf(plan, presets(), { apt: { jq: '1.6-1' }, npm: {}, pip: {} })
      const step = steps.find((one) => one.name === name)
      assert.ok(step, steps.map((one) => one.name).join(' '))
      holds(
        {
          run: playing(step.run).replaceAll('/tmp/', '{place}/tmp/'),
          variables: step.variables,
          played: [...PROGRAMS, 'install', 'setpriv', 'cp', 'mv', 'chmod', 'rm', 'ln'],
          prepare: (place) =>
            write(place, {
              'etc/apt/preferences.d/x': '',
              'etc/profile.d/x': '',
              'usr/sbin/x': '',
              'tmp/x': '',
              'opt/agentpod/tools/python/bin/ruff': '',
              'opt/agentpod/tools/python/bin/pip': '#!/bin/sh\nexec pip "$@"\n',
              'var/lib/agentpod/postgres/x': '',
            }),
        },
        // Where Debian's servers are is asked, and there need be none.
        { mayFail: [/^ls -d .*postgresql/, /^sort -V/, /^tail -n 1/, /^apt-cache show/] },
      )
    })
})

describe('the layer of an agent', () => {
  const source = { variables: { npm_config_registry: 'https://npm.example.com/' }, network: [] }
  // One way each: packages of npm, of npm with a Node of their own, of PyPI.
  for (const agent of [agentNamed('codex'), agentNamed('claude'), agentNamed('aider')])
    test(`the layer of ${agent.name} fails when any of its commands fails`, () => {
      const recipe = agentRecipe(agent, {
        base: { name: 'host', tools: {} },
        arch: 'x64',
        npm: source,
        pip: source,
      })
      for (const { run, variables } of recipe?.steps ?? [])
        holds(
          {
            run: playing(run).replaceAll('/tmp/agentpod-install', '{place}/scratch'),
            variables,
            played: [...PROGRAMS, 'cp', 'chmod', 'chown', 'ln', 'rm', 'find'],
            prepare: (place) =>
              write(place, { 'scratch/node/x': '', 'scratch/pip/bin/python': '#!/bin/sh\nexec pip\n' }),
          },
          { mayFail: [/^ldd/, /^rm -rf \S*\/scratch$/] },
        )
    })
})

describe('scripts that run git', () => {
  /** A commit of two files, as it is sent. */
  function sent(): { readonly tree: string; readonly commit: string; readonly pack: Buffer } {
    const directory = mkdtempSync(join(tmpdir(), 'agentpod-sent-'))
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgSign=false']
    const git = (args: readonly string[], input = ''): Buffer =>
      execFileSync('git', [...identity, ...args], { cwd: directory, input })
    try {
      write(directory, { 'a.txt': 'a', 'b/c.txt': 'c' })
      for (const args of [
        ['init', '-q'],
        ['add', '-A'],
        ['commit', '-q', '-m', 'one'],
      ])
        git(args)
      const [commit = '', tree = ''] = String(git(['rev-parse', 'HEAD', 'HEAD^{tree}']))
        .trim()
        .split('\n')
      return { commit, tree, pack: git(['pack-objects', '--revs', '--stdout', '-q'], `${commit}\n`) }
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

  test('the script that prepares a project for runs fails when any of its commands fails', () => {
    const { pack, ...known } = sent()
    const { args } = prepareScript({
      workspace: '{place}/project',
      stash: '{place}/stash',
      ...known,
      branch: 'main',
      shallow: [],
      aside: ['node_modules'],
      packs: ['{place}/stash/arriving.pack'],
      submodules: [],
    })
    const calls = holds(
      {
        run: args[1] ?? '',
        args: args.slice(3),
        played: [],
        prepare(place) {
          mkdirSync(join(place, 'stash'))
          writeFileSync(join(place, 'stash', 'arriving.pack'), pack)
          write(join(place, 'project'), { 'node_modules/x': 'x', 'generated.txt': 'g' })
        },
      },
      // Copied where it cannot be linked; what is not in the tree is not hidden.
      { mayFail: [/^ln /, /cat-file -t/] },
    )
    assert.ok(calls > 15, `${calls} calls were looked at`)
  })

  test('the scripts that record a project and its changes fail when any of their commands fails', () => {
    const baseline = baselineScript('{place}/base', '{place}/project', ['node_modules'])
    const changes = changesScript('{place}/base', '{place}/project', ['node_modules'])
    const prepare = (place: string): void => {
      write(join(place, 'project'), { 'a.txt': 'a', 'node_modules/x': 'x' })
      mkdirSync(join(place, 'base'))
    }
    holds({ run: baseline.args[1] ?? '', args: baseline.args.slice(3), played: [], prepare })
    holds({
      run: changes.args[1] ?? '',
      args: changes.args.slice(3),
      played: [],
      prepare(place) {
        prepare(place)
        const words = baseline.args.map((word) => word.replaceAll('{place}', place))
        execFileSync('/bin/sh', words)
        write(join(place, 'project'), { 'a.txt': 'b' })
      },
    })
  })
})
