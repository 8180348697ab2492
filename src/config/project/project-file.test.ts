import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { resolveResources } from '../../core/resources.ts'
import { LONGEST_TTL_MS } from '../../core/spec.ts'
import { describeRule } from '../../policy/rule.ts'
import { FULL } from '../testing/full-file.ts'
import { problemsIn } from '../toml/problem.ts'
import type { ProjectData } from './data.ts'
import { PROJECT_LANGUAGES } from './environment-table.ts'
import { type ProjectFile, parseProject } from './project-file.ts'

const read = (text: string): ProjectFile => parseProject({ file: 'agentpod.toml', text })
const data = (text: string): ProjectData => read(text).data

/** Every problem as `line:column message (hint)`. */
function problems(text: string): string[] {
  try {
    read(text)
  } catch (error) {
    const found = problemsIn(error)
    if (!found) throw error
    return found.map(
      ({ line, column, message, hint }) => `${line}:${column} ${message}${hint ? ` (${hint})` : ''}`,
    )
  }
  return []
}

describe('a file that says nothing', () => {
  for (const text of [
    '',
    '\n',
    '# nothing\n',
    '[environment]\n',
    '[services]\n[ports]\n[lifecycle]\n[profiles]\n',
  ])
    test(`${JSON.stringify(text)} is right and asks for nothing`, () => {
      const { environment, services, ports, lifecycle, resources, network, agents, profiles } = data(text)
      assert.deepEqual(environment, {
        languages: {},
        packages: { apt: [], npm: [], pip: [], cargo: [], go: [], nix: [] },
        variables: {},
      })
      assert.deepEqual([services, ports, lifecycle, profiles.size], [[], [], {}, 0])
      assert.ok(Object.values(resources).every((value) => value === undefined))
      assert.deepEqual([network.allow, network.presets, network.mode], [[], [], undefined])
      assert.deepEqual(agents, {
        default: undefined,
        model: undefined,
        timeMs: undefined,
        maxCostUsd: undefined,
        branch: undefined,
        permissions: {},
      })
    })
})

describe('a file that says everything', () => {
  const file = read(FULL)

  test('a file with every key is read into normal form', () => {
    const { environment, services, ports, lifecycle, resources, network, agents, profiles } = file.data
    assert.deepEqual(environment, {
      name: 'my-project',
      base: 'fullstack',
      suite: 'trixie',
      user: 'user',
      sudo: false,
      languages: { node: '22', python: '>=3.12,<4', go: 'latest', java: false, ruby: false },
      packages: {
        apt: ['libpq-dev', 'g++', 'curl=8.14.1-2'],
        npm: ['typescript', '@biomejs/biome@2'],
        pip: ['ruff', 'httpx[http2]>=0.27,<1'],
        cargo: ['just@1.40.0'],
        go: ['golang.org/x/tools/gopls@latest'],
        nix: ['ripgrep', 'nixpkgs/nixos-24.11#jq', '.#default'],
      },
      variables: { NODE_ENV: 'development' },
    })
    assert.deepEqual(services, [
      { kind: 'known', name: 'postgres', version: '15', port: 5432 },
      { kind: 'known', name: 'redis', version: undefined, port: undefined },
      { kind: 'none', name: 'mysql' },
      { kind: 'none', name: 'mongodb' },
      {
        kind: 'command',
        name: 'worker',
        run: 'npm run worker',
        ready: { command: undefined, port: 1234, timeoutMs: 45_000 },
        workdir: 'apps/worker',
        variables: { A: 'b' },
        stopSignal: 'SIGINT',
      },
      {
        kind: 'command',
        name: 'mail',
        run: 'mailpit',
        ready: { command: 'curl -sf localhost:8025', timeoutMs: 30_000 },
        workdir: '',
        variables: {},
        stopSignal: 'SIGTERM',
      },
    ])
    assert.deepEqual(ports, [
      { port: 3000, label: 'Frontend', isPublic: true },
      { port: 8080, label: undefined, isPublic: false },
    ])
    assert.deepEqual(lifecycle, {
      setup: { commands: ['npm ci', 'scripts/bootstrap.sh'], inputs: ['scripts/bootstrap.sh'] },
      start: { commands: ['npm run migrate'] },
      dev: { commands: ['npm run dev'] },
      test: { commands: ['npm test', 'npm run e2e'] },
      lint: false,
    })
    assert.deepEqual(resources, {
      cpus: 1.5,
      memoryMib: 8192,
      diskMib: 20_480,
      pids: 2048,
      bandwidthBytes: 2_097_152,
      timeoutMs: 3_600_000,
      idleMs: 900_000,
      stepMs: 600_000,
    })
    assert.deepEqual(network.presets, ['npm', 'pip'])
    assert.deepEqual(network.allow.map(describeRule), [
      'api.example.com on port 80, 443',
      'files.example.com on port 80, 443; methods GET; paths /public/**',
    ])
    assert.deepEqual(
      network.secrets.map(({ name, isRequired }) => [name, isRequired]),
      [['API_KEY', true]],
    )
    assert.deepEqual(agents, {
      default: 'claude',
      model: 'large',
      timeMs: 1_800_000,
      maxCostUsd: 2.5,
      branch: 'agents/{slug}/{agent}-{n}',
      permissions: {
        bash: [
          { pattern: '*', decision: 'allow' },
          { pattern: 'git push*', decision: 'deny' },
        ],
        write: [{ pattern: '*', decision: 'allow' }],
        mcp: [{ pattern: '*', decision: 'ask' }],
        network: [{ pattern: '*', decision: 'deny' }],
      },
    })
    assert.deepEqual([...profiles.keys()], ['ci'])
  })

  test('a file with every key knows the position of each value', () => {
    const place = (...path: (string | number)[]): string => {
      const { line, column } = file.at(path) ?? {}
      return `${line}:${column}`
    }
    const lines = FULL.split('\n')
    const lineOf = (start: string): number => lines.findIndex((line) => line.startsWith(start)) + 1
    assert.equal(place('environment', 'base'), `${lineOf('base')}:8`)
    assert.equal(place('environment', 'packages', 'apt', 1), `${lineOf('apt')}:21`)
    assert.equal(place('services', 'worker', 'ready', 'port'), `${lineOf('worker')}:53`)
    assert.equal(place('ports', '3000', 'public'), `${lineOf('3000')}:39`)
    assert.equal(
      place('profiles', 'ci', 'network', 'presets', 0),
      `${lineOf('[profiles.ci.network]') + 1}:12`,
    )
    assert.equal(file.at(['environment', 'nothing']), undefined)
    assert.equal(file.at(['services', 'toString']), undefined)
  })
})

describe('what is right', () => {
  const RIGHT: readonly string[] = [
    'environment.languages.node = "22"',
    'environment = { base = "host", languages = { node = "lts/iron" } }',
    '[environment]\nbase = "debian"\nsuite = "trixie"',
    '[environment]\nuser = "root"',
    ...PROJECT_LANGUAGES.map((name) => `[environment.languages]\n${name} = false`),
    ...[
      '22',
      '>=20 <23',
      '^20 || ^22',
      '3.12.*',
      '~=3.11',
      'latest',
      'none',
      'lts/*',
      'v22.1.0',
      '1.24rc1',
      '=1.85',
    ].map((version) => `[environment.languages]\nrust = "${version}"`),
    '[environment.languages]\nc = "latest"',
    '[environment.packages]\napt = ["libssl3t64", "g++", "python3.13", "0ad", "libc6=2.41-12~bpo+1", "linux-libc-dev=6:1.2"]',
    '[environment.packages]\nnpm = ["JSONStream", "a", "@types/node@^24.1.0", "eslint@~9.1", "x@next", "x@1.0.0-rc.1+b"]',
    '[environment.packages]\npip = ["a", "a==1.*", "ruamel.yaml>=0.18", "A[b,c]~=1.2,!=1.2.3", "x===1.0+local"]',
    '[environment.packages]\ncargo = ["a", "cargo-edit@0.13.0", "sqlx-cli@0.8.0-beta.1"]',
    '[environment.packages]\ngo = ["github.com/BurntSushi/toml/cmd/tomlv@v1.4.0", "mvdan.cc/sh/v3/cmd/shfmt"]',
    '[environment.variables]\n_ = ""\nA1 = "x\\ny"\nPS1 = "\\u001b[1m$ "\nLD_PRELOAD = "/x.so"\nPATH = "/bin"',
    '[services]\npostgres = {}\n[services.redis]\nversion = "7"',
    '[services.x]\nrun = "./x"\nready = { command = "true", timeout = "500s" }',
    '[services]\nmysql = {}\nmariadb = { port = 3307 }',
    '[services]\nmysql = false\nmariadb = {}',
    '[services]\nmysql = { enabled = false }\nmariadb = { enabled = true }',
    '[services.own]\nenabled = false\n[services.x]\nenabled = true\nrun = "./x"',
    '[services]\nredis = { run = "valkey-server", ready = { port = 6379 } }',
    '[ports]\n1 = {}\n65535 = {}\n"8080" = {}',
    '[lifecycle]\nsetup = false\nstart = ["a"]\ndev = """\na\nb\n"""\n',
    '[lifecycle.setup]\nrun = "make deps"',
    '[resources]\nmemory = "32MiB"\ndisk = "1024TiB"\ncpus = 0.05\npids = 8\ntimeout = "30d"\nidle = "0s"',
    '[resources]\nmemory = "1.5g"\ncpus = 2\ntimeout = "1500ms"',
    '[network]\nmode = "off"\nintercept = "all"\nallow = []',
    '[network]\nallow = ["*.example.com:8443/api/**", { host = "db.internal", private = true, budget = { bytes = 1 } }]',
    '[secrets]\nA = {}\n"b.c-d" = { hosts = [] }',
    '[agents]\ndefault = "claude-code"\npermissions = {}',
    '[agents]\ntime = "7d"\nmax_cost = 0.01\nbranch = "x/{n}"',
    '[agents.permissions]\nbash = {}\nwrite = { "src/*" = "allow", "*" = "deny" }\nnetwork = { "*.example.com" = "ask" }',
    '[agents.permissions.bash]\n"*" = "ask"\n"a=b" = "deny"',
    '[profiles.a]\n[profiles.b.resources]\ncpus = 1000',
    '[profiles.a.network]\nmode = "off"\ndeny = ["example.com"]\nintercept = "all"',
    '[network]\nmode = "open"\n[profiles.a.network]\nmode = "open"',
    '[network]\nallow = ["*.example.com"]\n[profiles.a.network]\nallow = ["a.example.com", "b.example.com:443"]',
    '[agents.permissions]\nbash = "allow"\n[profiles.a.agents.permissions]\nbash = "allow"\nwrite = "deny"',
    '[resources]\r\ncpus = 2\r\n',
  ]
  for (const text of RIGHT) test(text, () => assert.deepEqual(problems(text), []))
})

const version = 'must be a version or a range of versions, like "22", "3.12" or ">=1.24"'
const debian = 'must be the name of a Debian package, like "libpq-dev" or "curl=8.14.1-2"'
const npm = 'must be the name of an npm package, like "typescript" or "@biomejs/biome@2"'
const pip = 'must be a pip requirement without options and URLs, like "ruff" or "httpx[http2]>=0.27,<1"'
const cargo = 'must be the name of a crate, like "cargo-nextest" or "just@1.40.0"'
const goPath = 'must be the path of a Go program, like "golang.org/x/tools/gopls@latest"'
const port = 'must be a port, a whole number from 1 to 65535'
const size = 'must be a size with its unit, in quotes, like "512MB" or "4GB"'
const time = 'must be a time with its unit, in quotes, like "90s", "15m" or "1h"'
const below = 'must be a path below the project, like scripts/setup.sh'
const word = 'is 1 to 32 lowercase letters, digits and dashes, and begins with a letter'

const list = (manager: string, text: string): string =>
  `[environment.packages]\n${manager} = [ ${JSON.stringify(text)} ]`
const refused = (manager: string, words: string, ...entries: readonly string[]) =>
  entries.map(
    (entry) =>
      [list(manager, entry), `2:${manager.length + 6} environment.packages.${manager}.0: ${words}`] as const,
  )

/** A file, and all that is wrong with it. */
const WRONG: readonly (readonly [text: string, ...problems: string[]])[] = [
  // Keys.
  ['[enviroment]\n', '1:2 unknown key enviroment (did you mean environment?)'],
  ['x = 1\n', '1:1 unknown key x'],
  ['[environment]\nlanguges = {}', '2:1 unknown key environment.languges (did you mean languages?)'],
  ['[environment.langauges]\nnode = "1"', '1:14 unknown key environment.langauges (did you mean languages?)'],
  [
    'environment.base.x = 1',
    '1:13 environment.base: must be "host", "debian", "image", "js", "python", "go", "rust", "java", "fullstack" or "polyglot", not a table',
  ],
  ['environment.lang.node = "1"', '1:13 unknown key environment.lang'],
  [
    '[environment]\nnode = "22"',
    '2:1 unknown key environment.node (it belongs under [environment.languages])',
  ],
  ['memory = "4GB"', '1:1 unknown key memory (it belongs under [resources])'],
  ['[resources]\nnetwork = {}', '2:1 unknown key resources.network (it belongs at the top of the file)'],
  ['  [resources]\n\t cpu = 2', '2:3 unknown key resources.cpu (did you mean cpus?)'],
  ['[lifecycle]\ninstall = "x"', '2:1 unknown key lifecycle.install (did you mean setup?)'],
  ['[environment]\nenv = {}', '2:1 unknown key environment.env (did you mean variables?)'],
  [
    '[environment.languages]\nnodejs = "22"',
    '2:1 unknown key environment.languages.nodejs (did you mean node?)',
  ],
  [
    '[environment.languages]\ngolang = "1"',
    '2:1 unknown key environment.languages.golang (did you mean go?)',
  ],
  [
    '[environment.languages]\nPython = "3"',
    '2:1 unknown key environment.languages.Python (did you mean python?)',
  ],
  ['[environment.languages]\ncobol = "1"', '2:1 unknown key environment.languages.cobol'],
  ['[environment.packages]\nnmp = []', '2:1 unknown key environment.packages.nmp (did you mean npm?)'],
  ['[ports]\n3000 = { lable = "x" }', '2:10 unknown key ports.3000.lable (did you mean label?)'],
  [
    '[services.x]\nrun = "x"\nready = { port = 1, timout = "1s" }',
    '3:21 unknown key services.x.ready.timout (did you mean timeout?)',
  ],
  [
    '[network]\nallow = ["example.com",\n  { host = "a.example.com", port = 1 }]',
    '3:29 unknown key network.allow.1.port (did you mean ports?)',
  ],
  ['[secrets]\nA = { value = "x" }', '2:7 unknown key secrets.A.value'],
  ['[agents.permissions]\nshell = "ask"', '2:1 unknown key agents.permissions.shell'],
  [
    '[profiles.ci]\nenvironment = {}',
    '2:1 unknown key profiles.ci.environment (it belongs at the top of the file)',
  ],
  ['[profiles.ci.resources]\nmem = "1GB"', '2:1 unknown key profiles.ci.resources.mem'],
  ['toString = 1', '1:1 unknown key toString'],
  ['environment.hasOwnProperty = 1', '1:13 unknown key environment.hasOwnProperty'],
  ['"\\u001b[2J" = 1', '1:1 unknown key ?[2J'],
  ['[[environment]]\nbase = "host"', '1:3 environment: must be a table, not a list'],
  ['environment = 5', '1:15 environment: must be a table, not a number'],
  ['services = "postgres"', '1:12 services: must be a table, not a string'],
  ['[environment]\nlanguages = ["node"]', '2:13 environment.languages: must be a table, not a list'],

  // Environment.
  [
    '[environment]\nname = "My Project"',
    '2:8 environment.name: a name is 1 to 64 lowercase letters, digits, dots, dashes and underscores, and begins and ends with a letter or digit',
  ],
  [
    '[environment]\nbase = "debain"',
    '2:8 environment.base: must be "host", "debian", "image", "js", "python", "go", "rust", "java", "fullstack" or "polyglot", not "debain" (did you mean debian?)',
  ],
  [
    '[environment]\nbase = "fulstack" # x',
    '2:8 environment.base: must be "host", "debian", "image", "js", "python", "go", "rust", "java", "fullstack" or "polyglot", not "fulstack" (did you mean fullstack?)',
  ],
  ['[environment]\nbase = debian', '2:8 invalid value (put text in quotes: "debian")'],
  [
    '[environment]\nsuite = "Trixie!"',
    '2:9 environment.suite: must be the name of a Debian release, like "trixie"',
  ],
  [
    '[environment]\nimage = "Debian 12"',
    '2:9 environment.image: "Debian 12" does not name an image (write one like debian:12, ghcr.io/owner/name:tag or name@sha256:..., in lower case)',
  ],
  [
    '[environment]\nimage = "node:22"\nbase = "debian"',
    '2:9 environment.image: the base debian does not take an image (leave one of them out, or set base = "image")',
  ],
  ['[environment]\nbase = "image"', '2:8 environment.base: needs the name of an image (image = "debian:12")'],
  [
    '[environment]\nimage = "node:22"\nsuite = "trixie"',
    '3:9 environment.suite: the base image does not take a Debian release (leave it out, or set base = "debian")',
  ],
  [
    '[environment]\nimage = "node:22"\ndockerfile = "Dockerfile"',
    '3:14 environment.dockerfile: an environment starts from an image or from a Dockerfile, not from both (leave one of them out; FROM in the Dockerfile names the image below it)',
  ],
  [
    '[environment]\ndockerfile = "Dockerfile"\nbase = "host"',
    '2:14 environment.dockerfile: the base host does not take a Dockerfile (leave one of them out, or set base = "image")',
  ],
  [
    '[environment]\ndockerfile = "Dockerfile"\nsuite = "trixie"',
    '3:9 environment.suite: the base image does not take a Debian release (leave it out, or set base = "debian")',
  ],
  [
    '[environment]\ndockerfile = "../Dockerfile"',
    '2:14 environment.dockerfile: must be a path below the project, like scripts/setup.sh',
  ],
  [
    '[environment.dockerfile]\ncontext = "/etc"',
    '2:11 environment.dockerfile.context: must be a path below the project, like scripts/setup.sh',
  ],
  [
    '[environment.dockerfile]\ntarget = "a b"',
    '2:10 environment.dockerfile.target: must be the name of a stage',
  ],
  [
    '[environment.dockerfile]\nsecrets = ["TOKEN"]',
    '2:1 unknown key environment.dockerfile.secrets (it belongs at the top of the file)',
  ],
  [
    '[environment.dockerfile]\nbuild_args = { N = 1 }',
    '2:20 environment.dockerfile.build_args.N: must be a string, not a number (write "1")',
  ],
  [
    '[environment]\nbase = "host"\nsuite = "trixie"',
    '3:9 environment.suite: the base host does not take a Debian release (leave it out, or set base = "debian")',
  ],
  ['[environment]\nuser = "Root"', '2:8 environment.user: is not a valid user name'],
  ['[environment]\nuser = "-x"', '2:8 environment.user: is not a valid user name'],
  ['[environment]\nsudo = "yes"', '2:8 environment.sudo: must be true or false, not a string'],
  ['[environment]\nsudo = 1', '2:8 environment.sudo: must be true or false, not a number'],

  // Languages.
  [
    '[environment.languages]\nnode = 22',
    '2:8 environment.languages.node: must be a string or false, not a number (write "22")',
  ],
  [
    '[environment.languages]\npython = 3.10',
    '2:10 environment.languages.python: must be a string or false, not the number 3.1 (write "3.10")',
  ],
  [
    '[environment.languages]\nnode = true',
    '2:8 environment.languages.node: must be a string or false, not true',
  ],
  [
    '[environment.languages]\nnode = ["22"]',
    '2:8 environment.languages.node: must be a string or false, not a list',
  ],
  [
    '[environment.languages]\nnode = 2024-01-01',
    '2:8 environment.languages.node: must be a string or false, not a date',
  ],
  ['[environment.languages]\nnode = ""', `2:8 environment.languages.node: ${version}`],
  ['[environment.languages]\nnode = "22; rm -rf /"', `2:8 environment.languages.node: ${version}`],
  ['[environment.languages]\nnode = "-22"', `2:8 environment.languages.node: ${version}`],
  ['[environment.languages]\nnode = "$(id)"', `2:8 environment.languages.node: ${version}`],
  [`[environment.languages]\nnode = "${'1'.repeat(65)}"`, `2:8 environment.languages.node: ${version}`],
  [
    '[environment.languages]\nc = "17"',
    '2:5 environment.languages.c: must be "latest", "none" or false, not a string',
  ],

  // Packages.
  ...refused(
    'apt',
    debian,
    '',
    'a',
    '-y',
    '--purge',
    'foo-',
    'Foo',
    'foo bar',
    'foo;id',
    './foo.deb',
    'foo/sid',
    'foo=',
    'foo=1 2',
    'libc6:i386',
    '$(id)',
    'foo\n',
    'f\u0000o',
  ),
  ...refused(
    'npm',
    npm,
    '',
    '-g',
    '--prefix=/x',
    './dir',
    '../x',
    'user/repo',
    'x@file:../y',
    'git+https://example.com/x',
    'x@npm:y',
    '@scope',
    '@scope/',
    'x@>=1',
    'x y',
    'x;id',
    '.bin',
    'x@`id`',
  ),
  ...refused(
    'pip',
    pip,
    '',
    '-r x',
    '-rx',
    '--index-url=https://example.com',
    'git+https://example.com/x',
    'x @ https://example.com/x',
    './x',
    'x; python_version<"3"',
    'x>=1, <2',
    'x==',
    '[a]',
    'x$y',
    '/x',
  ),
  ...refused('cargo', cargo, '', '--git', '-x', '0x', 'a/b', 'a@', 'a b', 'a;b'),
  ...refused(
    'go',
    goPath,
    '',
    '-x',
    './...',
    'gopls',
    'golang.org/x/tools/...',
    'golang.org/../x',
    'example.com',
    'https://example.com/x',
    'example.com/x@',
    'example.com/x y',
    'example.com//x',
  ),
  ['[environment.packages]\napt = "libpq-dev"', '2:7 environment.packages.apt: must be a list, not a string'],
  [
    '[environment.packages]\napt = ["ok",\n  7]',
    '3:3 environment.packages.apt.1: must be a string, not a number (write "7")',
  ],
  [
    `[environment.packages]\nnpm = [${'"aa",'.repeat(257)}]`,
    '2:7 environment.packages.npm: has more than 256 entries',
  ],

  // Variables.
  [
    '[environment.variables]\nPORT = 3000',
    '2:8 environment.variables.PORT: must be a string, not a number (write "3000")',
  ],
  [
    '[environment.variables]\nDEBUG = true',
    '2:9 environment.variables.DEBUG: must be a string, not true (write "true")',
  ],
  [
    '[environment.variables]\n1A = "x"',
    '2:1 environment.variables.1A: is not a valid variable name: use letters, digits and underscores, and no digit first',
  ],
  [
    '[environment.variables]\n"A=B" = "x"',
    '2:1 environment.variables.A=B: is not a valid variable name: use letters, digits and underscores, and no digit first',
  ],
  [
    '[environment.variables]\nAGENTPOD_HOME = "x"',
    '2:1 environment.variables.AGENTPOD_HOME: is reserved: projects cannot set variables that start with AGENTPOD_',
  ],
  ['[environment.variables]\nA = "a\\u0000b"', '2:5 environment.variables.A: has a NUL byte'],
  ['[environment.variables]\nA = { b = "c" }', '2:5 environment.variables.A: must be a string, not a table'],
  [
    `[environment.variables]\nA = "${'x'.repeat(32_769)}"`,
    '2:5 environment.variables.A: is longer than 32768 characters',
  ],
  [
    '[environment.variables]\nKEY = "x"\n[secrets]\nKEY = {}',
    '2:1 environment.variables.KEY: is also the name of a secret, whose placeholder uses this variable (remove it here or under [secrets])',
  ],

  // Services.
  [
    '[services]\npostgress = {}',
    '2:13 services.postgress: needs the key run: this is not a known service (did you mean postgres?)',
  ],
  [
    '[services]\npostgresql = {}',
    '2:14 services.postgresql: needs the key run: this is not a known service (did you mean postgres?)',
  ],
  [
    '[services.mailer]\nready = "true"',
    '1:11 services.mailer: needs the key run: this is not a known service (known are postgres, redis, mysql, mariadb, mongodb, rabbitmq, memcached, elasticsearch)',
  ],
  ['[addons]\ngui = 1', '2:7 addons.gui: must be true or false or a table, not a number'],
  ['[addons]\nvscode = true', '2:1 unknown key addons.vscode'],
  [
    '[services]\nx = { run = "x", ready = { port = 6080 } }\n[addons]\ngui = true',
    '4:7 addons.gui: uses port 6080, as the service x does (gui = { port = 6081 })',
  ],
  [
    '[services]\ngui = { run = "x" }\n[addons]\ngui = {}',
    '4:7 addons.gui: is also the name of a service (rename the service)',
  ],
  ['[services]\nredis = true', '2:9 services.redis: must be a table or false, not true'],
  ['[services]\nredis = { enabled = 1 }', '2:21 services.redis.enabled: must be true or false, not a number'],
  [
    '[services]\nredis = { enabled = false, ready = "x" }',
    '2:36 services.redis.ready: is only for a service with run (leave it out)',
  ],
  [
    '[services]\nown = { enabled = true }',
    '2:7 services.own: needs the key run: this is not a known service (known are postgres, redis, mysql, mariadb, mongodb, rabbitmq, memcached, elasticsearch)',
  ],
  ['[services]\nredis = "7"', '2:9 services.redis: must be a table or false, not a string'],
  ['[services]\nRedis = {}', `2:1 services.Redis: a service’s name ${word}`],
  [
    '[services]\npostgres = { version = 15 }',
    '2:24 services.postgres.version: must be a string, not a number (write "15")',
  ],
  ['[services]\npostgres = { port = 0 }', `2:21 services.postgres.port: ${port}`],
  ['[services]\npostgres = { port = "5432" }', `2:21 services.postgres.port: ${port}`],
  [
    '[services]\npostgres = { workdir = "x" }',
    '2:24 services.postgres.workdir: is only for a service with run (leave it out)',
  ],
  [
    '[services]\nx = { run = "x", port = 80 }',
    '2:25 services.x.port: is only for a service without run (write ready = { port = 80 })',
  ],
  [
    '[services]\nx = { run = "x", version = "1" }',
    '2:28 services.x.version: is only for a service without run (leave it out)',
  ],
  ['[services]\nx = { run = "" }', '2:13 services.x.run: is empty'],
  ['[services]\nx = { run = "x", ready = {} }', '2:26 services.x.ready: must have either command or port'],
  [
    '[services]\nx = { run = "x", ready = { port = 1, command = "y" } }',
    '2:26 services.x.ready: must have either command or port',
  ],
  [
    '[services]\nx = { run = "x", ready = 80 }',
    '2:26 services.x.ready: must be a string or a table, not a number (write "80")',
  ],
  [
    '[services]\nx = { run = "x", ready = { port = 1, timeout = 30 } }',
    `2:48 services.x.ready.timeout: ${time}`,
  ],
  [
    '[services]\nx = { run = "x", ready = { port = 1, timeout = "1h" } }',
    '2:48 services.x.ready.timeout: must be from 1s to 10m',
  ],
  ['[services]\nx = { run = "x", workdir = "/etc" }', `2:28 services.x.workdir: ${below}`],
  [
    '[services]\nx = { run = "x", stop = "SIGTREM" }',
    '2:25 services.x.stop: must be "SIGTERM", "SIGINT" or "SIGQUIT", not "SIGTREM" (did you mean SIGTERM?)',
  ],
  [
    '[services]\nx = { run = "x", variables = { AGENTPOD_X = "" } }',
    '2:32 services.x.variables.AGENTPOD_X: is reserved: projects cannot set variables that start with AGENTPOD_',
  ],
  [
    '[services]\nmysql = {}\nmariadb = {}',
    '3:11 services.mariadb: listens on port 3306, as mysql does (give one of them another port)',
  ],
  [
    '[services]\nredis = {}\npostgres = { port = 6379 }',
    '3:21 services.postgres.port: listens on port 6379, as redis does (give one of them another port)',
  ],

  // Ports.
  ['[ports]\n0 = {}', `2:1 ports.0: ${port}`],
  ['[ports]\n65536 = {}', `2:1 ports.65536: ${port}`],
  ['[ports]\n"080" = {}', `2:1 ports.080: ${port}`],
  ['[ports]\nweb = {}', `2:1 ports.web: ${port}`],
  ['[ports]\n3000 = "Frontend"', '2:8 ports.3000: must be a table, not a string'],
  ['[ports.3000]\nlabel = "a\\nb"', '2:9 ports.3000.label: must be one line'],
  ['[ports.3000]\nlabel = "a\\u001bb"', '2:9 ports.3000.label: has control characters'],
  ['[ports.3000]\npublic = "yes"', '2:10 ports.3000.public: must be true or false, not a string'],

  // Lifecycle.
  ['[lifecycle]\ntest = true', '2:8 lifecycle.test: must be a string, a list or false, not true'],
  ['[lifecycle]\ntest = []', '2:8 lifecycle.test: is empty'],
  ['[lifecycle]\ntest = "  "', '2:8 lifecycle.test: is empty'],
  ['[lifecycle]\ntest = ["a", 5]', '2:14 lifecycle.test.1: must be a string, not a number (write "5")'],
  ['[lifecycle]\ntest = "a\\u0000"', '2:8 lifecycle.test: has control characters'],
  ['[lifecycle]\ntest = { run = "x" }', '2:8 lifecycle.test: must be a string, a list or false, not a table'],
  ['[lifecycle]\nsetup = { inputs = [] }', '2:9 lifecycle.setup: needs the key run'],
  ['[lifecycle.setup]\nrun = false', '2:7 lifecycle.setup.run: must be a string or a list, not false'],
  ['[lifecycle.setup]\nrun = "x"\ninputs = ["ok", "../x"]', `3:17 lifecycle.setup.inputs.1: ${below}`],
  [
    '[lifecycle.setup]\nrun = "x"\ninputs = ["/etc/passwd", "~/x", "a//b", "./a", "a\\\\b"]',
    ...[11, 26, 33, 41, 48].map((column, index) => `3:${column} lifecycle.setup.inputs.${index}: ${below}`),
  ],
  [
    '[lifecycle.setup]\nrun = "x"\ninputs = ["*.lock"]',
    '3:11 lifecycle.setup.inputs.0: must name one file: patterns are not supported',
  ],
  [`[lifecycle]\ntest = "${'x'.repeat(8193)}"`, '2:8 lifecycle.test: is longer than 8192 characters'],

  // Resources.
  ['[resources]\nmemory = 4096', `2:10 resources.memory: ${size}`],
  ['[resources]\nmemory = "4096"', `2:10 resources.memory: ${size}`],
  ['[resources]\nmemory = "4 GB"', `2:10 resources.memory: ${size}`],
  ['[resources]\nmemory = "31MiB"', '2:10 resources.memory: must be from 32MiB to 4TiB'],
  ['[resources]\nmemory = "999999999999TB"', '2:10 resources.memory: must be from 32MiB to 4TiB'],
  ['[resources]\ndisk = "1KB"', `2:8 resources.disk: ${size}`],
  ['[resources]\ncpus = "2"', '2:8 resources.cpus: must be a number, not a string'],
  ['[resources]\ncpus = 0', '2:8 resources.cpus: must be at least 0.05'],
  ['[resources]\ncpus = 1025', '2:8 resources.cpus: must be at most 1024'],
  ['[resources]\ncpus = nan', '2:8 resources.cpus: must be a number, not the number NaN'],
  ['[resources]\ncpus = inf', '2:8 resources.cpus: must be a number, not the number Infinity'],
  ['[resources]\npids = 1.5', '2:8 resources.pids: must be a whole number, not the number 1.5'],
  ['[resources]\npids = 7', '2:8 resources.pids: must be at least 8'],
  ['[resources]\ntimeout = 60', `2:11 resources.timeout: ${time}`],
  ['[resources]\ntimeout = "5 minutes"', `2:11 resources.timeout: ${time}`],
  ['[resources]\ntimeout = "999ms"', '2:11 resources.timeout: must be from 1s to 30d'],
  ['[resources]\nstep_timeout = "3h"', '2:16 resources.step_timeout: must be from 1s to 2h'],
  ['[resources]\nidle = "31d"', '2:8 resources.idle: must be from 0s to 30d'],

  // Network and secrets.
  [
    '[network]\nmode = "opne"',
    '2:8 network.mode: must be "off", "allowlist" or "open", not "opne" (did you mean open?)',
  ],
  [
    '[network]\npresets = ["npm", "nmp"]',
    '2:19 network.presets.1: unknown preset: "nmp" (did you mean npm?)',
  ],
  ['[network]\npresets = "npm"', '2:11 network.presets: must be a list, not a string'],
  [
    '[network]\nallow = ["https://example.com"]',
    '2:10 network.allow.0: a rule names a host, not a URL (leave out the part up to ://)',
  ],
  [
    '[network]\nallow = [\n  "example.com",\n  "*.com",\n]',
    '4:3 network.allow.1: *.com is too wide (name a domain below it, like *.example.com)',
  ],
  ['[network]\nallow = [{ ports = [1] }]', '2:10 network.allow.0: needs the key host'],
  [
    '[network]\nallow = [{ host = "example.com", ports = [0] }]',
    '2:43 network.allow.0.ports.0: must be at least 1',
  ],
  [
    '[network]\nallow = [{ host = "example.com", budget = { bytes = 1.5 } }]',
    '2:53 network.allow.0.budget.bytes: must be a whole number, not the number 1.5',
  ],
  [
    '[network]\ndeny = [{ host = "example.com", private = true }]',
    '2:9 network.deny.0: a denial cannot have private or budget (leave them out)',
  ],
  [
    '[secrets]\n"1" = {}',
    '2:1 secrets.1: the name of a secret starts with a letter and has letters, digits, _ . and -',
  ],
  ['[secrets]\nA = "sk-123"', '2:5 secrets.A: must be a table, not a string'],

  // Agents and profiles.
  ['[agents]\ndefault = "Claude"', `2:11 agents.default: an agent’s name ${word}`],
  [
    '[agents.permissions]\nbash = "yes"',
    '2:8 agents.permissions.bash: must be "ask", "allow", "deny" or a table, not a string',
  ],
  ['[profiles.CI]\n', `1:11 profiles.CI: a profile’s name ${word}`],
  [
    '[profiles.a.network]\nmode = "open"',
    '2:8 profiles.a.network.mode: a profile can only be stricter: open is wider than allowlist (set the wider mode under [network])',
  ],
  [
    '[network]\nmode = "off"\n[profiles.a.network]\nmode = "allowlist"',
    '4:8 profiles.a.network.mode: a profile can only be stricter: allowlist is wider than off (set the wider mode under [network])',
  ],
  [
    '[network]\npresets = ["npm"]\n[profiles.a]\nnetwork = { presets = ["npm", "pip"] }',
    '4:31 profiles.a.network.presets.1: a profile can only be stricter: [network] does not have the preset pip (add it to presets under [network])',
  ],
  [
    '[network]\nallow = ["a.example.com"]\n[profiles.a.network]\nallow = ["a.example.com", "*.example.com"]',
    '4:27 profiles.a.network.allow.1: a profile can only be stricter: [network] does not allow all of *.example.com (add it to allow under [network])',
  ],
  [
    '[network]\nallow = ["a.example.com"]\n[profiles.a.network]\nallow = ["a.example.com:8443"]',
    '4:10 profiles.a.network.allow.0: a profile can only be stricter: [network] does not allow all of a.example.com (add it to allow under [network])',
  ],
  [
    '[network]\nintercept = "all"\n[profiles.a.network]\nintercept = "needed"',
    '4:13 profiles.a.network.intercept: a profile can only be stricter: "needed" intercepts less than "all" (leave it out)',
  ],
  [
    '[profiles.a.agents.permissions]\nnetwork = "allow"',
    '2:11 profiles.a.agents.permissions.network: a profile can only be stricter: allow is wider than ask (set it under [agents.permissions])',
  ],
  [
    '[agents.permissions]\nbash = { "*" = "ask" }\n[profiles.a.agents.permissions]\nbash = { "npm test*" = "allow" }',
    '4:24 profiles.a.agents.permissions.bash.npm test*: a profile can only be stricter: allow is wider than ask (set it under [agents.permissions])',
  ],
  [
    '[agents.permissions]\nbash = "deny"\n[profiles.a.agents.permissions]\nbash = "ask"',
    '4:8 profiles.a.agents.permissions.bash: a profile can only be stricter: ask is wider than deny (set it under [agents.permissions])',
  ],

  // TOML.
  ['[network\n', '1:9 illegal character in key'],
  ['[resources]\ncpus = 1\ncpus = 2', '3:1 resources.cpus is already defined on line 2'],
  ['[resources]\n[network]\n[resources]', '3:2 resources is already defined on line 1'],
  ['[services]\nx = { run = "a", run = "b" }', '2:18 run is already defined on line 2'],
  ['[lifecycle]\ntest = "a', '2:8 unfinished string'],
  ['[lifecycle]\ntest = "\\q"', '2:10 unrecognised escape sequence'],
  ['__proto__ = 1', '1:1 a key of this name is not allowed'],
  ['[environment.variables]\nconstructor = "x"', '2:1 a key of this name is not allowed'],
  ['environment = { __proto__ = { sudo = true } }', '1:17 a key of this name is not allowed'],
  [
    `x = ${'['.repeat(33)}${']'.repeat(33)}`,
    '1:37 document contains excessively nested structures. aborting.',
  ],
  ['[resources]\npids = 99999999999999999999', '2:8 integer value cannot be represented losslessly'],
]

describe('what is wrong is told with its place', () => {
  for (const [text, ...expected] of WRONG)
    test(`ENV-4 a mistake has its place: ${text.length > 200 ? `${text.slice(0, 60)}… (${text.length})` : text}`, () =>
      assert.deepEqual(problems(text), expected))

  test('ENV-4 all mistakes of a file are in one error, in the order of the file', () => {
    const text = '[resources]\ncpus = "2"\nmem = 1\n\n[environment]\nbase = "x"\n'
    assert.throws(
      () => read(text),
      (error: Error & { hint?: string; reason?: string; details?: { problems: unknown[] } }) => {
        assert.deepEqual(error.message.split('\n'), [
          'agentpod.toml:2:8: resources.cpus: must be a number, not a string',
          'agentpod.toml:3:1: unknown key resources.mem',
          'agentpod.toml:6:8: environment.base: must be "host", "debian", "image", "js", "python", "go", "rust", "java", "fullstack" or "polyglot", not "x"',
        ])
        assert.equal(error.hint, '`agentpod config check` shows each problem')
        assert.deepEqual(error.details?.problems[1], {
          file: 'agentpod.toml',
          line: 3,
          column: 1,
          path: 'resources.mem',
          message: 'unknown key resources.mem',
          hint: undefined,
          reason: 'file.unknown_key',
        })
        return true
      },
    )
  })

  test('ENV-4 an error lists at most twenty mistakes', () => {
    const text = `[resources]\n${Array.from({ length: 50_000 }, (_, index) => `k${index} = 1`).join('\n')}`
    assert.equal(problems(text).length, 20)
    assert.throws(() => read(text), /:21:1: unknown key resources\.k19\nand more$/)
  })
})

describe('bounds are those that hold elsewhere', () => {
  const { memoryMib, diskMib, cpus, pids, timeoutMs, idleMs } = data(
    '[resources]\nmemory = "4TiB"\ndisk = "1024TiB"\ncpus = 1024\npids = 1_000_000\ntimeout = "30d"\nidle = "30d"',
  ).resources
  const least = data('[resources]\nmemory = "32MiB"\ndisk = "16MiB"\ncpus = 0.05\npids = 8').resources

  test('limits of resources in the file match those of the API', () => {
    resolveResources({ memoryMib, diskMib, cpus, pids })
    const { memoryMib: memory, diskMib: disk, cpus: part, pids: few } = least
    resolveResources({ memoryMib: memory, diskMib: disk, cpus: part, pids: few })
    for (const beyond of [
      { memoryMib: Number(memoryMib) + 1 },
      { memoryMib: Number(memory) - 1 },
      { diskMib: Number(diskMib) + 1 },
      { diskMib: Number(disk) - 1 },
      { cpus: Number(cpus) + 1 },
      { cpus: Number(part) / 2 },
      { pids: Number(pids) + 1 },
      { pids: Number(few) - 1 },
    ])
      assert.throws(() => resolveResources(beyond), JSON.stringify(beyond))
  })

  test('limits of time in the file match those of the API', () =>
    assert.deepEqual([timeoutMs, idleMs], [LONGEST_TTL_MS, LONGEST_TTL_MS]))
})

test('LIFE-6 a bad entry of [ephemeral] is refused at its line and column', () => {
  const parsed = (text: string) => parseProject({ file: 'agentpod.toml', text })
  const many = Array.from({ length: 17 }, (_, n) => `"x${n}"`).join(', ')
  for (const [text, says] of [
    ['paths = ["../x"]', /agentpod\.toml:2:10: .*below the project/],
    ['paths = ["a", "/"]', /agentpod\.toml:2:15: .*not a path for an ephemeral directory/],
    ['paths = ["~"]', /agentpod\.toml:2:10/],
    ['paths = ["/tmp/x"]', /agentpod\.toml:2:10: .*its own \/tmp/],
    ['paths = [".git"]', /agentpod\.toml:2:10: .*git/],
    ['paths = ["a", "a"]', /agentpod\.toml:2:15: .*named twice/],
    ['paths = ["a/b", "a"]', /agentpod\.toml:2:17: .*one inside the other/],
    ['paths = ["/v/x"]\n[volumes]\nv = "/v"', /agentpod\.toml:2:10: .*overlaps with the volume v/],
    [`paths = [${many}]`, /agentpod\.toml:2:\d+/],
    ['paths = []\nsize = "2"', /agentpod\.toml:3:8/],
    ['kept = true', /agentpod\.toml:2:1/],
  ] as const)
    assert.throws(() => parsed(`[ephemeral]\n${text}\n`), says)
  assert.deepEqual(parsed('[ephemeral]\npaths = ["tmp", "~/x"]\nsize = "2GB"\n').data.ephemeral, [
    { path: 'tmp', sizeMib: 2048 },
    { path: '~/x', sizeMib: 2048 },
  ])
})
