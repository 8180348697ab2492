/** Real projects go from nothing to their own tests passing, by detection alone and by agentpod.toml. */
import assert from 'node:assert/strict'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { type CliResult, ROOT, World } from '../support/world.ts'

const PROJECTS_AT = join(ROOT, 'examples', 'environments')

const world = new World()
after(() => world[Symbol.asyncDispose]())

/** A copy that may be changed. */
function project(name: string): string {
  const directory = join(world.directory(), name)
  cpSync(join(PROJECTS_AT, name), directory, { recursive: true })
  return directory
}

function edit(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, 'utf8')))
}

const run = (cwd: string, ...args: string[]): Promise<CliResult> =>
  world.cli(args, { cwd, timeoutMs: 300_000 })

async function passes(cwd: string, ...args: string[]): Promise<CliResult> {
  const result = await run(cwd, ...args)
  assert.equal(result.code, 0, `${args.join(' ')}\n${result.stdout}\n${result.stderr}`)
  return result
}

const BUILT = /^\[\d+\/\d+\]/m

interface Project {
  readonly name: string
  /** What its tests say when they pass. */
  readonly says: RegExp
  readonly toml: string
}

const PROJECTS: readonly Project[] = [
  {
    name: 'node',
    says: /# pass 1/,
    toml: '[environment]\nbase = "host"\n[environment.languages]\nnode = ">=18"\n[lifecycle]\nsetup = "npm ci"\ntest = "node --test"\n',
  },
  {
    name: 'python',
    says: /2 passed/,
    toml: '[environment.languages]\npython = "3"\n[lifecycle]\ntest = "python -m pytest -q"\n',
  },
]

for (const { name, says, toml } of PROJECTS)
  describe(`a project in ${name}`, () => {
    const directory = project(name)

    test(`ENV-1 a project in ${name} passes its tests by detection alone, and the second time nothing is built`, async () => {
      const first = await passes(directory, 'test')
      assert.match(first.stdout, says)
      assert.match(first.stderr, BUILT)
      const second = await passes(directory, 'test')
      assert.match(second.stdout, says)
      assert.doesNotMatch(second.stderr, BUILT)
      assert.doesNotMatch(
        second.stderr,
        /changed in the sandbox/,
        'what was installed is no change of the project',
      )
    })

    test(`ENV-1 a project in ${name} passes its tests with agentpod.toml`, async () => {
      writeFileSync(join(directory, 'agentpod.toml'), toml)
      const { stdout } = await passes(directory, 'test')
      assert.match(stdout, says)
      await passes(directory, 'config', 'check')
      rmSync(join(directory, 'agentpod.toml'))
    })
  })

describe('built layers', () => {
  const directory = project('node')

  test('ENV-6 a commit that changes no manifest builds nothing, and another one says what changed', async () => {
    await passes(directory, 'build')
    edit(join(directory, 'index.js'), (text) => `// changed\n${text}`)
    assert.doesNotMatch((await passes(directory, 'run', '--', 'true')).stderr, BUILT)
    edit(join(directory, 'package.json'), (text) =>
      text.replace('"private": true,', '"private": true, "description": "x",'),
    )
    const { stderr } = await passes(directory, 'run', '--', 'true')
    assert.match(stderr, /dependencies, by npm \(changed: package\.json\)/)
  })

  test('another copy of the project uses the same layers', async () => {
    const other = project('node')
    assert.match((await passes(other, 'build', '--json')).stdout, /"steps":1/)
    const { stdout } = await passes(directory, 'build', '--json')
    assert.match(JSON.parse(stdout).digest, /^[0-9a-f]{64}$/)
  })

  test('an environment is explained: the choices, their sources, and what they overrode', async () => {
    writeFileSync(join(directory, '.nvmrc'), '20\n')
    const { stdout } = await passes(directory, 'config', 'explain', '--json')
    const { choices } = JSON.parse(stdout)
    const node = choices.find(({ key }: { key: string }) => key === 'languages.node')
    assert.equal(node.from.file, '.nvmrc')
    assert.equal(node.rank, 'version file')
    assert.ok(
      node.beat.some(({ evidence }: { evidence: { file: string } }) => evidence.file === 'package.json'),
    )
    rmSync(join(directory, '.nvmrc'))
  })

  test('init writes down the environment, and its file is valid', async () => {
    await passes(directory, 'init')
    const text = readFileSync(join(directory, 'agentpod.toml'), 'utf8')
    assert.match(text, /\[environment\.languages\]\nnode = ">=18" {2}# package\.json:6/)
    await passes(directory, 'config', 'check')
    assert.match((await passes(directory, 'test')).stdout, /# pass 1/)
    assert.equal((await run(directory, 'init')).code, 5, 'a file that is there is not replaced unasked')
    rmSync(join(directory, 'agentpod.toml'))
  })

  test('prune removes the oldest layers first, and never one below a running sandbox', async () => {
    await passes(directory, 'run', '--keep', '--name', 'stands', '--', 'true')
    const before = JSON.parse(
      (await passes(directory, 'prune', '--keep', '0GB', '--dry-run', '--json')).stdout,
    )
    assert.ok(before.removed.length > 0)
    await passes(directory, 'prune', '--keep', '0GB')
    assert.match((await passes(directory, 'exec', 'stands', '--', 'ls', 'node/node_modules')).stdout, /^ms$/m)
    await passes(directory, 'destroy', 'stands')
    await passes(directory, 'prune', '--keep', '0GB')
    assert.match((await passes(directory, 'run', '--', 'true')).stderr, /its layer was removed|never built/)
  })
})

describe('failures', () => {
  const failing = (setup: string): string => {
    const directory = world.directory()
    writeFileSync(
      join(directory, 'agentpod.toml'),
      `[environment]\nbase = "host"\n[lifecycle]\nsetup = ${JSON.stringify(setup)}\n`,
    )
    return directory
  }

  test('a build step that fails is named with its last output, and leaves nothing', async () => {
    const directory = failing('echo first; echo the disk is made of cheese >&2; exit 3')
    for (const _ of [1, 2]) {
      const { code, stderr } = await run(directory, 'build')
      assert.equal(code, 6)
      assert.match(stderr, /the disk is made of cheese/)
      assert.match(stderr, /error: the step "dependencies, by your command" failed: exit code 3/)
      assert.match(stderr, /hint: .*build --debug/)
      assert.match(stderr, /never built/)
    }
    assert.equal((await world.ok(['ls'])).trim().split('\n').length, 1, 'no sandbox is left')
  })

  test('build --debug opens a shell in the step that failed', async () => {
    const directory = failing('touch /tmp/was-here; false')
    const { stdout } = await world.cli(['build', '--debug'], {
      cwd: directory,
      input: 'ls /tmp/was-here && id -un\nexit\n',
    })
    assert.match(stdout, /\/tmp\/was-here\nuser/)
    assert.equal((await world.ok(['ls'])).trim().split('\n').length, 1, 'it goes with the shell')
  })

  test('ENV-7 a build step that reaches for a host that it may not reach is refused', async () => {
    const directory = failing('curl -sS --max-time 20 https://example.com')
    const { code, stderr } = await run(directory, 'build')
    assert.equal(code, 6)
    assert.match(stderr, /curl: \(\d+\)/)
  })

  test('an unavailable version names what was tried and what is near', async () => {
    const directory = project('node')
    writeFileSync(
      join(directory, 'agentpod.toml'),
      '[environment]\nbase = "host"\n[environment.languages]\nruby = "1.2"\n',
    )
    const { code, stderr } = await run(directory, 'test')
    assert.notEqual(code, 0)
    assert.match(stderr, /agentpod\.toml:4: Ruby 1\.2 is not available: this machine has/)
    assert.match(stderr, /Debian/)
    assert.match(stderr, /hint: .*ruby/)
  })

  test('a wrong agentpod.toml gives one diagnostic with its places, and nothing is created', async () => {
    const directory = world.directory()
    writeFileSync(join(directory, 'agentpod.toml'), '[environment]\nbase = "hots"\n[servises]\n')
    const { code, stderr } = await run(directory, 'run', '--', 'true')
    assert.equal(code, 2)
    assert.match(stderr, /agentpod\.toml:2:8/)
    assert.match(stderr, /did you mean/)
  })

  test('CF-02: what a project asks for beyond its own package managers is left out until it is granted', async () => {
    const directory = project('node')
    writeFileSync(
      join(directory, 'agentpod.toml'),
      '[environment]\nsudo = true\n[network]\npresets = ["npm", "github"]\nallow = ["evil.example.com"]\n',
    )
    const before = await passes(
      directory,
      'run',
      '--',
      'sh',
      '-c',
      'sudo -n true 2>/dev/null && echo root || echo nobody',
    )
    assert.match(before.stderr, /asks for more than you have granted/)
    assert.match(before.stderr, /evil\.example\.com/)
    assert.match(before.stderr, /github/)
    assert.doesNotMatch(before.stderr, /preset npm/)
    assert.match(before.stdout, /nobody/)
    await passes(directory, 'policy', 'approve')
    const after = await passes(directory, 'run', '--', 'true')
    assert.doesNotMatch(after.stderr, /asks for more/)
  })
})
