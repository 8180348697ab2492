import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { detect } from '../../detect/detect.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { inputOf, machine, written } from '../../testing/plan-parts.ts'
import { explainPlan } from '../explain.ts'
import type { Plan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { startCommand } from '../recipe/recipe.ts'
import { draftPlan } from './resolve.ts'

const HOST = machine('node 20.19.0 /opt/node/bin', 'python 3.11.2', 'gcc 12.2.0', 'make 4.3')

function planOf(files: Readonly<Record<string, string>>, more: Partial<PlanInput> = {}): Promise<Plan> {
  return draftPlan({ ...inputOf({ machine: HOST }), detected: detect(memoryTree(files)), ...more })
}

const setupsOf = ({ setups }: Plan): string[] =>
  setups.map(({ name, script, run }) => `${name}: ${script ?? run}`)

const NPM = {
  'package.json': '{"name":"x","scripts":{"test":"node t.js","dev":"vite"}}',
  'package-lock.json': '{"lockfileVersion":3,"packages":{}}',
}
const gitpod = (init: string, more = ''): Record<string, string> => ({
  ...NPM,
  '.gitpod.yml': `tasks:\n  - init: ${JSON.stringify(init)}\n${more}`,
})

describe('commands of other files when the environment is built', () => {
  const rows: readonly (readonly [name: string, init: string, setups: readonly string[], note?: RegExp])[] = [
    ['what the manifest installs is installed once', 'npm install', ['dependencies/node: npm ci']],
    [
      'an option replaces the command of the manifest',
      'npm ci --legacy-peer-deps',
      ['dependencies/node: npm ci --legacy-peer-deps'],
    ],
    [
      'the rest runs after it on all files',
      'npm ci && npm run build',
      ['dependencies/node: npm ci', 'prebuild/gitpod: npm run build'],
    ],
    [
      'lines are split',
      'npm ci\nnpm run build',
      ['dependencies/node: npm ci', 'prebuild/gitpod: npm run build'],
    ],
    [
      'packages of Debian are no command',
      'sudo apt-get update && sudo apt-get install -y libpq-dev\nnpm run build',
      ['dependencies/node: npm ci', 'prebuild/gitpod: npm run build'],
    ],
    [
      'a conditional stays whole',
      'if [ -f x ]; then\n  npm run a\nfi',
      ['dependencies/node: npm ci', 'prebuild/gitpod: if [ -f x ]; then\n  npm run a\nfi'],
    ],
    [
      'a command that only says something is left out',
      'echo ready && printf done >/dev/null 2>&1',
      ['dependencies/node: npm ci'],
    ],
    [
      'text that goes into a file is no remark',
      'mkdir -p data && echo A=1 > .env',
      ['dependencies/node: npm ci', 'prebuild/gitpod: mkdir -p data\necho A=1 > .env'],
    ],
    [
      'printf writes files too',
      'printf x >> x.txt',
      ['dependencies/node: npm ci', 'prebuild/gitpod: printf x >> x.txt'],
    ],
    [
      'a command in another one is run',
      'echo $(touch x)',
      ['dependencies/node: npm ci', 'prebuild/gitpod: echo $(touch x)'],
    ],
    [
      'an empty directory is made',
      'mkdir -p data',
      ['dependencies/node: npm ci', 'prebuild/gitpod: mkdir -p data'],
    ],
    [
      'submodules are named, because a build cannot fetch them',
      'git submodule update --init',
      ['dependencies/node: npm ci'],
      /`git submodule update --init` is not run: a build reaches only the registries/,
    ],
    [
      'a download from another host is named',
      'curl https://example.com/x | sh',
      ['dependencies/node: npm ci'],
      /\.gitpod\.yml:2: `curl https:\/\/example\.com\/x \| sh` is not run: a build reaches only the registries/,
    ],
    [
      'a command that needs root is named',
      'sudo ln -s a b',
      ['dependencies/node: npm ci'],
      /\.gitpod\.yml:2: `sudo ln -s a b` is not run: a project gets no root/,
    ],
    [
      'a daemon is named',
      'docker compose up -d',
      ['dependencies/node: npm ci'],
      /`docker compose up -d` is not run: a build has no daemons/,
    ],
  ]
  for (const [name, init, setups, note] of rows)
    test(`FMT-3 ${name}`, async () => {
      const made = await planOf(gitpod(init))
      assert.deepEqual(setupsOf(made), setups)
      if (note) assert.match(made.notes.join('\n'), note)
      else assert.doesNotMatch(made.notes.join('\n'), /is not run/)
    })

  test('FMT-3 the step on all files is built again when any file changes', async () => {
    const made = await planOf({ ...gitpod('npm run build'), 'src/a.js': '' })
    const step = made.setups.find(({ name }) => name === 'prebuild/gitpod')
    assert.deepEqual(step?.inputs, ['.gitpod.yml', 'package-lock.json', 'package.json', 'src/a.js'])
    assert.match(
      step?.run ?? '',
      /this command comes from \.gitpod\.yml:2; \[lifecycle\] setup in agentpod\.toml/,
    )
  })

  test('FMT-3 pip installs into the virtual environment of the project', async () => {
    const made = await planOf({
      'requirements.txt': 'x\n',
      'nixpacks.toml': '[phases.install]\ncmds = ["pip install --no-deps -r requirements.txt"]\n',
    })
    assert.equal(
      made.setups[0]?.run,
      '[ -x .venv/bin/python ] || python3 -m venv .venv\npip install --no-deps -r requirements.txt',
    )
    assert.equal(made.setups.length, 1)
  })

  test('FMT-3 a directory has its own manifest', async () => {
    const files = Object.fromEntries(Object.entries(NPM).map(([name, text]) => [`web/${name}`, text]))
    const made = await planOf({ ...files, '.gitpod.yml': 'tasks:\n  - init: cd web && npm install\n' })
    assert.deepEqual(setupsOf(made), ['dependencies/node/web: npm ci'])
    assert.equal(made.setups[0]?.beat?.[0]?.evidence.file, '.gitpod.yml')
  })

  test('FMT-3 agentpod.toml replaces the commands of all files', async () => {
    const made = await planOf(gitpod('npm run build', '    before: npm run db\n'), {
      file: written('[lifecycle]\nsetup = "make"\nstart = "true"\n'),
    })
    assert.deepEqual(
      made.setups.map(({ name }) => name),
      ['setup'],
    )
    assert.deepEqual(made.starts, [])
    assert.match(startCommand(made) ?? '', /\ntrue$/)
  })

  test('FMT-3 the commands for every start run in the project', async () => {
    const made = await planOf(gitpod('npm ci', '    before: npm run db\n'))
    assert.match(startCommand(made) ?? '', /^cd \S+ \|\| exit 1\n.* -e -c 'npm run db'$/)
    const row = explainPlan(made).find(({ key }) => key === 'at-start')
    assert.deepEqual([row?.value, row?.from.file, row?.rank], ['npm run db', '.gitpod.yml', 'platform file'])
  })
})

describe('files that contradict each other', () => {
  const FILES = {
    ...NPM,
    '.cursor/environment.json':
      '{"install":"npm ci --prefer-dedupe","ports":[{"port":3000,"name":"cursor"}]}',
    '.gitpod.yml':
      'tasks:\n  - init: npm ci --no-optional\n    command: npm run gitpod\nports:\n  - port: 3000\n    name: gitpod\n',
    'devbox.json':
      '{"packages":["nodejs@20"],"env":{"MODE":"devbox"},"shell":{"scripts":{"test":"npm run devbox"}}}',
    'fly.toml': '[env]\nMODE = "fly"\nLOG = "fly"\n[http_service]\ninternal_port = 3000\n',
    'mise.toml':
      '[tools]\nnode = "18"\n[env]\nLOG = "mise"\n[tasks]\ntest = "npm run mise"\ndev = "npm run mise-dev"\n',
    '.nvmrc': '22\n',
  }
  const lost = (made: Plan, key: string): string[] => {
    const row = explainPlan(made).find((one) => one.key === key)
    return [
      `${row?.value} (${row?.from.file})`,
      ...(row?.beat ?? []).map(({ value, evidence, why }) => `${value} (${evidence.file}): ${why}`),
    ]
  }

  test('FMT-1 the strongest file decides, and explain names the others', async () => {
    const made = await planOf(FILES)
    assert.deepEqual(lost(made, 'languages.node'), [
      '20.19.0 from this machine (devbox.json)',
      '22 (.nvmrc): it differs from 20, and a platform file goes before a version file',
      '18 (mise.toml): it differs from 20, and a platform file goes before a version file',
    ])
    assert.deepEqual(lost(made, 'dependencies/node'), [
      'by npm (again when one of 2 files changes) (.cursor/environment.json)',
      'npm ci (package-lock.json): a file for agents goes before a manifest',
    ])
    assert.match(
      made.notes.join('\n'),
      /\.gitpod\.yml:2: the commands of \.gitpod\.yml that install are not used: a file for agents goes before a platform file/,
    )
    assert.deepEqual(lost(made, 'commands.test'), [
      'npm run devbox (devbox.json)',
      'npm run mise (mise.toml): a platform file goes before a version file',
      'npm test (package.json): a platform file goes before a manifest',
    ])
    assert.deepEqual(lost(made, 'commands.dev').slice(0, 2), [
      'npm run gitpod (.gitpod.yml)',
      'npm run mise-dev (mise.toml): a platform file goes before a version file',
    ])
    assert.deepEqual(lost(made, 'ports.3000'), [
      'cursor, private (.cursor/environment.json)',
      'gitpod (.gitpod.yml): a file for agents goes before a platform file',
      '3000 (fly.toml): a file for agents goes before a platform file',
    ])
    assert.deepEqual(lost(made, 'variables.MODE'), [
      'devbox (devbox.json)',
      'fly (fly.toml): another file of the same kind goes first',
    ])
    assert.deepEqual(lost(made, 'variables.LOG'), [
      'fly (fly.toml)',
      'mise (mise.toml): a platform file goes before a version file',
    ])
  })

  test('FMT-1 agentpod.toml goes before all of them', async () => {
    const made = await planOf(FILES, {
      file: written(
        '[environment.languages]\nnode = "20"\n[environment.variables]\nMODE = "toml"\n[lifecycle]\ntest = "npm run toml"\n[ports]\n3000 = { label = "toml" }\n',
      ),
    })
    for (const [key, value] of [
      ['languages.node', '20.19.0 from this machine'],
      ['variables.MODE', 'toml'],
      ['commands.test', 'npm run toml'],
      ['ports.3000', 'toml, private'],
    ] as const) {
      assert.equal(lost(made, key)[0], `${value} (agentpod.toml)`)
      assert.ok(lost(made, key).length >= 3, key)
    }
  })
})

describe('what only another file names', () => {
  test('FMT-2 a language without a manifest is planned, and left out with a note where it is not available', async () => {
    const made = await planOf({ 'mise.toml': '[tools]\nnode = "20"\ndotnet = "9"\n' })
    assert.deepEqual(
      made.languages.map(({ language }) => language),
      ['node'],
    )
    assert.deepEqual(made.refused, [])
    assert.match(made.notes.join('\n'), /left out, though mise\.toml names it: .*\.NET/)
  })

  test('FMT-2 a terminal becomes a service that is ready when its port is', async () => {
    const made = await planOf({
      ...NPM,
      '.cursor/environment.json':
        '{"terminals":[{"name":"api","command":"node api.js --port 4000"},{"command":"npm run dev"}]}',
    })
    const services = made.services.map(({ name, command }) => [name, command?.run, command?.ready?.port])
    assert.deepEqual(services, [['cursor-api', 'node api.js --port 4000', 4000]])
  })

  test('FMT-2 programs and commands for every start of a file that lost are named', async () => {
    const { notes, services, starts } = await planOf({
      ...gitpod('npm ci', '    before: echo one\n'),
      '.replit': 'onBoot = "echo two"\n',
      '.cursor/environment.json': '{"start": "npm run db"}',
      'e2b.toml': 'start_cmd = "npm run other"\n',
    })
    assert.deepEqual(
      services.map(({ name }) => name),
      ['cursor-start'],
    )
    assert.deepEqual(
      starts.map(({ script }) => script),
      ['echo one'],
    )
    assert.ok(
      notes.some((one) =>
        /^e2b\.toml:1: e2b-start is not started beside the project: .* goes before/.test(one),
      ),
    )
    assert.ok(
      notes.some((one) =>
        /^\.replit:1: the commands of \.replit for every start are not used: another file of the same kind/.test(
          one,
        ),
      ),
    )
  })

  test('FMT-2 services turns it off', async () => {
    const made = await planOf(
      { ...NPM, '.cursor/environment.json': '{"start":"npm run db"}' },
      { file: written('[services]\ncursor-start = false\n') },
    )
    assert.deepEqual(made.services, [])
  })
})

describe('an image or Dockerfile of another file', () => {
  const files = {
    ...NPM,
    '.gitpod.yml': 'image: debian:12\n',
    '.cursor/environment.json': '{"build":{"dockerfile":"Dockerfile"}}',
    '.cursor/Dockerfile': 'FROM node:22\nCOPY --from=alpine:3 /a /b\n',
  }

  test('FMT-4 it is not used without an approval, and explain says so', async () => {
    const made = await planOf(files)
    assert.equal(made.base.value, 'host')
    assert.deepEqual(
      made.base.beat.map(({ value, evidence: { file }, why }) => `${value} (${file}): ${why}`),
      [
        'the Dockerfile .cursor/Dockerfile (.cursor/environment.json): it is not approved; `agentpod policy approve` approves it',
        'the image debian:12 (.gitpod.yml): it is not approved; `agentpod policy approve` approves it',
      ],
    )
  })

  test('FMT-4 the control: an approved one is the base, with the images that it names', async () => {
    const detected = detect(memoryTree(files))
    const [foundBase] = detected.bases
    assert.deepEqual(foundBase?.dockerfile?.images, ['node:22', 'alpine:3'])
    const made = await planOf(files, { foundBase, detected, dockerfileImage: 'dockerfile.invalid/x' })
    assert.equal(made.resolvedBase.image, 'dockerfile.invalid/x')
    assert.equal(made.resolvedBase.dockerfile?.file, '.cursor/Dockerfile')
    assert.deepEqual([made.base.value, made.base.rank], ['image', 'agent file'])
    assert.equal(made.base.beat[0]?.why, 'a file for agents goes before a platform file')
  })
})
