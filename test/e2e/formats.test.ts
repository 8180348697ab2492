/** Repositories with a file of another platform and no agentpod.toml, from nothing to their tests passing. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { NOT_LONG } from '../support/long.ts'
import { type CliResult, ROOT, World } from '../support/world.ts'

const PROJECTS_AT = join(ROOT, 'examples', 'environments')

const world = new World()
after(() => world[Symbol.asyncDispose]())

function project(name: string): string {
  const directory = join(world.directory(), name)
  cpSync(join(PROJECTS_AT, name), directory, { recursive: true })
  return directory
}

const run = (cwd: string, ...args: string[]): Promise<CliResult> =>
  world.cli(args, { cwd, timeoutMs: 300_000 })

async function passes(cwd: string, ...args: string[]): Promise<CliResult> {
  const result = await run(cwd, ...args)
  assert.equal(result.code, 0, `${args.join(' ')}\n${result.stdout}\n${result.stderr}`)
  return result
}

const BUILT = /^\[\d+\/\d+\]/m

describe('a repository with one file of another platform', () => {
  for (const [name, says] of [
    ['gitpod', /# pass 2/],
    ['railway', /# pass 2/],
    ['mise', /hello from mise[\s\S]*# pass 1/],
  ] as const)
    test(`FMT-6 the example ${name} passes its tests, and the second time nothing is built`, {
      skip: name !== 'mise' && NOT_LONG,
    }, async () => {
      const directory = project(name)
      assert.match((await passes(directory, 'test')).stdout, says)
      const second = await passes(directory, 'test')
      assert.match(second.stdout, says)
      assert.doesNotMatch(second.stderr, BUILT)
    })

  for (const [name, title] of [
    ['gitpod', 'A repository with `.gitpod.yml`:'],
    ['railway', 'One with `nixpacks.toml` and `railway.toml`:'],
    ['mise', "One with mise's tools, variables and tasks"],
  ] as const)
    test(`FMT-2 the guide shows what config explain prints for the example ${name}`, async () => {
      const guide = readFileSync(join(ROOT, 'docs', 'guides', 'environments.md'), 'utf8')
      const [, shown = ''] = guide
        .slice(guide.indexOf(title))
        .split('```console\n$ agentpod config explain\n')
      const { stdout } = await passes(project(name), 'config', 'explain')
      // The base and the versions of languages are those of the machine.
      const plain = (text: string): string[] =>
        text
          .split('\n')
          .map((line) => line.trim().replaceAll(/ +/g, ' '))
          .filter((line) => line !== '' && !/^(?:base|languages\.)/.test(line))
      assert.deepEqual(plain(stdout), plain(shown.split('```')[0] ?? ''))
    })

  test('FMT-5 the file that init --from writes takes the place of .gitpod.yml', async () => {
    const directory = project('gitpod')
    await passes(directory, 'init', '--from', '.gitpod.yml')
    await passes(directory, 'config', 'check')
    const text = readFileSync(join(directory, 'agentpod.toml'), 'utf8')
    assert.match(text, /^# Not carried over from \.gitpod\.yml:\n# - \.gitpod\.yml:11: ports\[1\]\.onOpen/m)
    rmSync(join(directory, '.gitpod.yml'))
    assert.match((await passes(directory, 'test')).stdout, /# pass 2/)
  })

  for (const [file, message] of [
    ['missing.yml', /the project has no file "missing\.yml"/],
    ['../../etc/passwd', /the project has no file/],
    [
      'package.json',
      /--from does not know the format of "package\.json"[\s\S]*known are devcontainer\.json, compose files, .*\.gitpod\.yml/,
    ],
    ['fly.toml', /--from cannot read "fly\.toml": .* in line 3, column 1/],
    ['vercel.json', /--from cannot read "vercel\.json": .*(?:nested too deeply|in line 1)/],
  ] as const)
    test(`FMT-5 init --from ${file} is refused with a hint, and writes nothing`, async () => {
      const directory = project('gitpod')
      writeFileSync(join(directory, 'fly.toml'), '[env]\nA = [\n')
      writeFileSync(join(directory, 'vercel.json'), '['.repeat(50_000))
      const { code, stderr } = await run(directory, 'init', '--from', file)
      assert.notEqual(code, 0)
      assert.match(stderr, message)
      assert.equal(existsSync(join(directory, 'agentpod.toml')), false)
    })

  test('FMT-3 a command that fails names its file and what replaces it', async () => {
    const directory = project('gitpod')
    writeFileSync(join(directory, '.gitpod.yml'), 'tasks:\n  - init: npm run missing\n')
    const { code, stderr } = await run(directory, 'test')
    assert.notEqual(code, 0)
    assert.match(
      stderr,
      /this command comes from \.gitpod\.yml:2; \[lifecycle\] setup in agentpod\.toml replaces it/,
    )
  })
})

describe('an image or Dockerfile of another file', () => {
  test('FMT-4 it is used only after policy approve, which names it', async () => {
    const directory = join(world.directory(), 'cursor')
    mkdirSync(join(directory, '.cursor'), { recursive: true })
    writeFileSync(join(directory, '.cursor', 'Dockerfile'), 'FROM debian:12\n')
    writeFileSync(
      join(directory, '.cursor', 'environment.json'),
      '{ "build": { "dockerfile": "Dockerfile" } }\n',
    )
    const before = await passes(directory, 'config', 'explain', 'base')
    assert.doesNotMatch(before.stdout, /^base +image/m)
    assert.match(before.stdout, /not the Dockerfile \.cursor\/Dockerfile .*it is not approved/)
    assert.match(before.stderr, /\.cursor\/environment\.json asks for more than you have granted/)
    const granted = await passes(directory, 'policy', 'approve')
    assert.match(granted.stderr, /granted: the image debian:12/)
    assert.match(granted.stderr, /granted: the Dockerfile \.cursor\/Dockerfile/)
    const after = await passes(directory, 'config', 'explain', 'base')
    assert.match(
      after.stdout,
      /^base +image.*\.cursor\/environment\.json:1 dockerfile: Dockerfile \(agent file\)/m,
    )
    // Another image in the Dockerfile needs another approval.
    writeFileSync(join(directory, '.cursor', 'Dockerfile'), 'FROM debian:13\n')
    assert.doesNotMatch((await passes(directory, 'config', 'explain', 'base')).stdout, /^base +image/m)
  })
})

describe('packages of nix', () => {
  test('FMT-7 a base without nix is refused with a hint', async () => {
    const directory = join(world.directory(), 'nix')
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'agentpod.toml'), '[environment.packages]\nnix = ["hello"]\n')
    const { code, stderr } = await run(directory, 'run', '--', 'hello')
    assert.notEqual(code, 0)
    assert.match(
      stderr,
      /the base has no nix, which \[environment\.packages\] nix needs; add "nix-bin" to apt/,
    )
  })
})
