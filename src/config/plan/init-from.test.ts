import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { detect } from '../detect/detect.ts'
import { formatsOf } from '../detect/formats/detect.ts'
import { memoryTree } from '../testing/memory-tree.ts'
import { inputOf, machine, written } from '../testing/plan-parts.ts'
import { initText, partsWithoutKey } from './init.ts'
import type { Plan } from './plan.ts'
import { startCommand } from './recipe/recipe.ts'
import { draftPlan, requireBuildable } from './resolve/resolve.ts'

const HOST = machine('node 20.19.0 /opt/node/bin', 'python 3.11.2', 'gcc 12.2.0', 'make 4.3')
const NPM = {
  'package.json': '{"name":"x","scripts":{"test":"node t.js","dev":"vite"}}',
  'package-lock.json': '{"lockfileVersion":3,"packages":{}}',
}

/** What a plan comes to, whichever file says it. */
function result(plan: Plan): object {
  return {
    base: plan.resolvedBase,
    languages: plan.languages.map(({ language, source }) => [language, source.version]),
    packages: plan.packages.map(({ name }) => name).sort(),
    extra: plan.extra,
    variables: Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
    services: plan.services.map(({ name, has, command }) => [name, has, command?.run, command?.ready]),
    ports: plan.ports.map(({ port, label }) => [port, label]),
    dev: plan.commands.dev.map(({ run }) => run),
    test: plan.commands.test.map(({ run }) => run),
    build: plan.commands.build.map(({ run }) => run),
    start: startCommand(plan)?.includes('npm run db') ?? false,
  }
}

const FILES: readonly (readonly [file: string, text: string, more?: Readonly<Record<string, string>>])[] = [
  [
    '.gitpod.yml',
    'tasks:\n  - before: npm run db\n    init: npm ci && npm run build\n    command: npm run gitpod\nports:\n  - port: 3000\n    name: Web\nvscode: {}\n',
  ],
  ['.gitpod.yml', 'image: debian:12\n'],
  [
    '.gitpod.yml',
    'image:\n  file: docker/a.Dockerfile\n  context: docker\n',
    { 'docker/a.Dockerfile': 'FROM debian:12\n' },
  ],
  [
    '.replit',
    'run = "npm run replit"\nmodules = ["nodejs-20"]\n[env]\nA = "b"\n[[ports]]\nlocalPort = 4000\n',
  ],
  [
    'nixpacks.toml',
    '[phases.install]\ncmds = ["npm ci --legacy-peer-deps"]\n[phases.build]\ncmds = ["npm run x"]\n[variables]\nA = "b"\n',
  ],
  ['railpack.json', '{"packages":{"npm:prettier":"3.3.3"},"deploy":{"startCommand":"npm start"}}'],
  ['railway.toml', '[build]\nbuildCommand = "npm run x"\n'],
  [
    'fly.toml',
    '[build]\ndockerfile = "f.Dockerfile"\n[build.args]\nN = "22"\n[env]\nA = "b"\n[http_service]\ninternal_port = 8080\n',
    { 'f.Dockerfile': 'ARG N\nFROM node:$N\n' },
  ],
  ['e2b.toml', 'start_cmd = "node api.js"\nready_cmd = "curl localhost"\n'],
  [
    'devbox.json',
    '{"packages":["nodejs@20"],"env":{"A":"b"},"shell":{"scripts":{"test":["npm run a","npm run b"]}}}',
  ],
  [
    'mise.toml',
    '[tools]\nnode = "20"\n"pipx:ruff" = "latest"\n[env]\nA = "b"\n[tasks]\ntest = "npm run mise"\n',
  ],
  ['vercel.json', '{"installCommand":"npm ci --x","buildCommand":"npm run v"}'],
  ['Procfile', 'web: npm start\n'],
  [
    '.cursor/environment.json',
    '{"terminals":[{"name":"api","command":"node api.js --port 4000"}],"ports":[{"port":4000,"name":"API"}]}',
  ],
  [
    '.devcontainer/devcontainer.json',
    '{"image":"debian:12","containerEnv":{"A":"b"},"remoteEnv":{"C":"${localEnv:X}"},"forwardPorts":[3000,"db:1"],"portsAttributes":{"3000":{"label":"web"}},"postCreateCommand":["npm","run","a b"],"postStartCommand":{"x":"true"},"features":{"a/b/c":{}},"remoteUser":"dev"}',
  ],
  [
    '.devcontainer/devcontainer.json',
    '{"build":{"dockerfile":"Dockerfile","args":{"V":"1"}},"privileged":true}',
    { '.devcontainer/Dockerfile': 'FROM debian:12\n' },
  ],
  [
    '.devcontainer/devcontainer.json',
    '{"dockerComposeFile":"c.yml","service":"app","workspaceFolder":"/w"}',
    {
      '.devcontainer/c.yml':
        'services:\n  app: { image: "node:22", volumes: ["../..:/w"], environment: { A: b } }\n  odd: { image: odd }\n',
    },
  ],
  [
    'compose.yaml',
    'services:\n  web: { build: ., ports: ["80:8080"], command: npm start, environment: { A: b }, volumes: [data:/d] }\n  odd: { image: odd }\nvolumes: { data: }\n',
    { Dockerfile: 'FROM debian:12\n' },
  ],
]

describe('the file that init --from writes', () => {
  for (const [index, [file, text, more = {}]] of FILES.entries())
    test(`FMT-5 ${file} (${index + 1}) becomes a valid file that gives the same plan without it`, async () => {
      const tree = memoryTree({ ...NPM, ...more, [file]: text })
      const detected = detect(tree, formatsOf(tree, file, '/home/me/shop'))
      const [foundBase] = detected.bases
      const input = { ...inputOf({ machine: HOST }), dockerfileImage: 'dockerfile.invalid/x' }
      const before = requireBuildable(await draftPlan({ ...input, detected, foundBase }))
      const toml = initText('shop', before, { file, notes: before.notes })
      const alone = detect(tree, [])
      assert.deepEqual(alone.formats, [], 'the control: the other file is not read')
      const after = await draftPlan({ ...input, detected: alone, file: written(toml) })
      const wanted = result(before)
      const got = result(after)
      assert.deepEqual(withoutImages(got), withoutImages(wanted), toml)
      for (const note of before.notes) assert.ok(toml.includes(`# - ${note.slice(0, 60)}`), note)
    })

  test('FMT-5 the commands of several tasks run at the same time', async () => {
    const gitpod = 'tasks:\n  - command: npm run api\n  - command: |\n      cd web\n      npm run web\n'
    const tree = memoryTree({ ...NPM, '.gitpod.yml': gitpod })
    const detected = detect(tree, formatsOf(tree, '.gitpod.yml', '/home/me/shop'))
    const before = await draftPlan({ ...inputOf({ machine: HOST }), detected })
    assert.equal(before.commands.dev.length, 2, 'the control: the file has two')
    const toml = initText('shop', before, { file: '.gitpod.yml', notes: before.notes })
    const { dev } = written(toml).data.lifecycle
    assert.deepEqual(dev !== false && dev?.commands, [
      '(\nnpm run api\n) &\n(\ncd web\nnpm run web\n) &\nwait',
    ])
  })

  test('FMT-5 the step on all files becomes one setup with its inputs', async () => {
    const tree = memoryTree({ ...NPM, '.gitpod.yml': 'tasks:\n  - init: npm ci && npm run build\n' })
    const detected = detect(tree, formatsOf(tree, '.gitpod.yml', '/home/me/shop'))
    const before = await draftPlan({ ...inputOf({ machine: HOST }), detected })
    const toml = initText('shop', before, { file: '.gitpod.yml', notes: before.notes })
    const after = await draftPlan({ ...inputOf({ machine: HOST }), detected, file: written(toml) })
    assert.deepEqual(
      after.setups.map(({ name }) => name),
      ['setup'],
    )
    assert.match(after.setups[0]?.run ?? '', /npm ci\n.*\nnpm run build/)
    assert.deepEqual(after.setups[0]?.inputs, ['package-lock.json', 'package.json'])
  })

  test('FMT-5 parts of the file without a key are listed as not carried over', async () => {
    const text = {
      'railway.toml': '[deploy]\nstartCommand = "npm run serve"\n',
      'mise.toml': '[env]\n_.path = ["tools/bin"]\n',
    }
    for (const [file, part] of [
      ['railway.toml', /# - railway\.toml:2 .*npm run serve/],
      ['mise.toml', /# - mise\.toml puts \.\/tools\/bin on the PATH/],
    ] as const) {
      const tree = memoryTree({ ...NPM, [file]: text[file] })
      const detected = detect(tree, formatsOf(tree, file, '/home/me/shop'))
      const plan = await draftPlan({ ...inputOf({ machine: HOST }), detected })
      const notes = partsWithoutKey(plan, detected.formats)
      assert.match(initText('x', plan, { file, notes }), part)
    }
  })

  test('FMT-5 SECURITY: text of the file stays in its strings and comments', async () => {
    const evil = '"\n[network]\nmode = "open"\n'
    const gitpod = `image: debian:12\ntasks:\n  - command: ${JSON.stringify(`echo ${evil}`)}\n    env: { A: ${JSON.stringify(evil)} }\nports:\n  - port: 3000\n    name: ${JSON.stringify(evil)}\n${JSON.stringify(evil)}: x\n`
    const tree = memoryTree({ '.gitpod.yml': gitpod, ...NPM })
    const detected = detect(tree, formatsOf(tree, '.gitpod.yml', '/home/me/shop'))
    assert.equal(detected.formats.length, 1, 'the control: the file is read')
    const made = await draftPlan({ ...inputOf({ machine: HOST }), detected })
    const { data } = written(initText('shop', made, { file: '.gitpod.yml', notes: made.notes }))
    assert.equal(data.network.mode, undefined)
  })
})

/** The images that a Dockerfile names are found when a project's file is read, not when it is parsed. */
function withoutImages(value: object): unknown {
  return JSON.parse(JSON.stringify(value, (key, one: unknown) => (key === 'images' ? [] : one)))
}
