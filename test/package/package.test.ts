/** The npm package: what is in it, and that it works where neither Go nor a compiler nor a clone is. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { ROOT, World } from '../support/world.ts'
import {
  elfOf,
  installGlobally,
  installInProject,
  ownCaller,
  pack,
  programsWithoutBuildTools,
} from './packed.ts'

/**
 * Four programs for two processors, and vminit for one, which takes 2.7 MiB (ADR 20). BuildKit's front end
 * and copy library take most of it.
 */
const LARGEST_BYTES = 43 * 1024 * 1024
/** As a former build leaves one for a server that still runs. */
const STALE = join(ROOT, 'dist', 'stale-0123ABCD.js')

let scratch = ''
let tarball = ''
let installed = ''
let path = ''
let world: World

before(
  async () => {
    scratch = mkdtempSync(join(tmpdir(), 'agentpod-package-'))
    writeFileSync(STALE, '')
    tarball = pack()
    rmSync(STALE)
    const agentpod = installGlobally(tarball, join(scratch, 'prefix'))
    installed = join(scratch, 'prefix', 'lib', 'node_modules', 'agentpod')
    path = programsWithoutBuildTools(scratch)
    const home = join(scratch, 'home')
    mkdirSync(home)
    world = new World({
      home: join(scratch, 'state', 'agentpod'),
      as: ownCaller(agentpod, home),
      env: { PATH: path, XDG_CACHE_HOME: join(home, '.cache') },
    })
  },
  { timeout: 240_000 },
)

after(async () => {
  await world[Symbol.asyncDispose]()
  for (const directory of [scratch, dirname(tarball)]) rmSync(directory, { recursive: true, force: true })
})

const packed = (): string[] =>
  globSync('**', { cwd: installed, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installed, join(entry.parentPath, entry.name)))

interface Manifest {
  readonly version: string
  readonly exports: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly dependencies?: unknown
}

const manifestIn = (directory: string): Manifest =>
  JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest

describe('the files of the npm package', () => {
  test('are no tests, no sources and no source maps', () => {
    const unwanted = packed().filter(
      (file) =>
        /\.test\.|\.map$|\.go$|(?<!\.d)\.ts$/.test(file) || /^(?:src|test|native|node_modules)\//.test(file),
    )
    assert.deepEqual(unwanted, [])
    assert.ok(statSync(tarball).size < LARGEST_BYTES, `${statSync(tarball).size} bytes`)
  })

  test('are README, licences and changelog, and the version is that of the clone', () => {
    for (const name of ['README.md', 'LICENSE', 'CHANGELOG.md', 'dist/THIRD-PARTY-LICENSES.txt'])
      assert.ok(packed().includes(name), name)
    assert.equal(manifestIn(installed).version, manifestIn(ROOT).version)
    assert.equal(manifestIn(installed).dependencies, undefined)
  })

  test('are static programs for both processors', () => {
    // Virtual machines need x86-64.
    for (const processor of ['x64', 'arm64'])
      for (const name of [
        'podd',
        'podhost',
        ...(processor === 'x64' ? ['vminit'] : []),
        'podimage',
        'podfiles',
      ])
        assert.deepEqual(elfOf(join(installed, 'dist', 'bin', processor, name)), {
          processor,
          isStatic: true,
        })
  })

  test('are an entry with types for each file of src/exports', () => {
    const sources = readdirSync(join(ROOT, 'src', 'exports')).map((name) => name.replace('.ts', ''))
    const entries = Object.entries(manifestIn(installed).exports)
    const named = entries.map(([name]) => (name === '.' ? 'client' : name.slice(2)))
    assert.deepEqual(named.toSorted(), sources.toSorted())
    for (const file of entries.flatMap(([, conditions]) => Object.values(conditions)))
      assert.ok(existsSync(join(installed, file)), file)
  })

  test('are the JavaScript of one build: an entry reaches each file', () => {
    const reached = new Set<string>()
    const reach = (file: string): void => {
      if (reached.has(file)) return
      reached.add(file)
      const text = readFileSync(join(installed, file), 'utf8')
      for (const [, name = ''] of text.matchAll(/(?:from|import)\s*\(?\s*"(\.\.?\/[^"]+\.js)"/g)) {
        const next = join(dirname(file), name)
        if (existsSync(join(installed, next))) reach(next)
        else assert.fail(`${file} imports ${next}, which is not packed`)
      }
    }
    const entries = Object.values(manifestIn(installed).exports).map((one) => join(one['default'] ?? ''))
    for (const entry of ['dist/cli.js', 'dist/egress.js', ...entries]) reach(entry)
    assert.deepEqual(
      packed().filter((file) => file.endsWith('.js') && !reached.has(file)),
      [],
    )
    assert.ok(reached.size > 50)
  })
})

describe('the installed command', () => {
  test('says its version and runs a command in a sandbox, with no state directory before', async () => {
    assert.equal(existsSync(world.home), false)
    const empty = world.directory()
    assert.equal((await world.ok(['--version'], { cwd: empty })).trim(), manifestIn(ROOT).version)
    const { code, stderr } = await world.cli(['run', '--', 'true'], { cwd: empty })
    assert.equal(code, 0, stderr)
    assert.equal(await world.ok(['run', '--', 'echo', 'inside'], { cwd: empty }), 'inside\n')
    assert.deepEqual(readdirSync(empty), [])
  })

  test('names a missing program once, with the command that installs it', async () => {
    const directory = join(scratch, 'without-git')
    const env = {
      PATH: programsWithoutBuildTools(directory, ['git']),
      XDG_CACHE_HOME: join(directory, 'cache'),
    }
    const first = await world.cli(['--version'], { env })
    assert.equal(first.code, 0)
    assert.match(first.stderr, /sandboxes on this machine need: git\n/)
    assert.match(first.stderr, /run: (?:sudo )?(?:apt-get|dnf|pacman|zypper|apk) \S.* git/)
    assert.equal((await world.cli(['--version'], { env })).stderr, '')
  })

  test('installs a private Node into the cache of the user where PATH has an old one', async () => {
    const directory = join(scratch, 'old-node')
    const bin = programsWithoutBuildTools(directory, ['npm', 'npx'])
    // An old Node answers with nothing: its version is too low. This npm has the one package that is asked
    // for.
    script(join(bin, 'node'), 'test "$1" != --version || echo v20.0.0')
    script(
      join(bin, 'npm'),
      `for word; do test "$before" != --prefix || to=$word; before=$word; done
      mkdir -p "$to/node_modules/node/bin" && cp ${process.execPath} "$to/node_modules/node/bin/node"`,
    )
    const env = { PATH: bin, XDG_CACHE_HOME: join(directory, 'cache') }
    const first = await world.cli(['--version'], { env })
    assert.equal(first.code, 0, first.stderr)
    assert.match(first.stderr, /installing a private Node 24 \(PATH has v20\.0\.0\)/)
    assert.ok(existsSync(join(directory, 'cache', 'agentpod', 'node')))
    assert.equal(existsSync(join(installed, '.cache')), false)
    assert.deepEqual(await world.cli(['--version'], { env }), { ...first, stderr: '' })
  })

  test('starts without a cache directory that it can write, where PATH has a recent Node', async () => {
    const env = { XDG_CACHE_HOME: '/proc/none' }
    assert.deepEqual(await world.cli(['--version'], { env }), {
      code: 0,
      stdout: `${manifestIn(ROOT).version}\n`,
      stderr: '',
    })
  })

  test('runs sandboxes for an ordinary user, whether the package belongs to root or to the user', {
    skip: noOrdinaryUser(),
    timeout: 120_000,
  }, async () => {
    let bin = ''
    using user = makeOrdinaryUser((directory) => {
      symlinkSync(installGlobally(tarball, join(directory, 'prefix')), join(directory, 'agentpod'))
      bin = programsWithoutBuildTools(directory)
    })
    const [project, prefix] = [join(user.home, 'project'), join(dirname(user.agentpod), 'prefix')]
    mkdirSync(project)
    await using theirs = new World({
      home: join(user.home, 'state'),
      as: user,
      env: { PATH: bin, XDG_CACHE_HOME: join(user.home, '.cache') },
    })
    for (const owner of ['root', user.name]) {
      execFileSync('chown', ['-R', owner, prefix])
      const { code, stdout, stderr } = await theirs.cli(['run', '--', 'echo', 'inside'], { cwd: project })
      assert.equal(code, 0, `a package of ${owner}: ${stderr}`)
      assert.equal(stdout, 'inside\n')
      await theirs.ok(['server', 'stop'])
    }
  })
})

describe('a TypeScript program that uses the package', () => {
  let project = ''

  before(() => {
    project = join(scratch, 'program')
    mkdirSync(project)
    writeFileSync(join(project, 'package.json'), '{ "name": "program", "type": "module", "private": true }')
    installInProject(tarball, project)
    // What `npm install --save-dev typescript @types/node` brings.
    mkdirSync(join(project, 'node_modules', '@types'))
    for (const name of ['@types/node', 'undici-types'])
      symlinkSync(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
    writeFileSync(
      join(project, 'main.ts'),
      `import { AgentPodError, Sandbox } from 'agentpod'

await using sandbox = await Sandbox.create({ lifetime: { ttlMs: 60_000 } })
const { stdout, exitCode }: { stdout: string; exitCode: number } = await sandbox.exec('sh', { args: ['-c', 'echo $((6 * 7))'] }).wait()
console.log(exitCode, stdout.trim())
const error: unknown = await sandbox.readText('/none').catch((thrown: unknown) => thrown)
console.log(error instanceof AgentPodError && error.code)
`,
    )
    const entries = Object.keys(manifestIn(installed).exports)
    const imports = entries.map((name, at) => `import * as e${at} from 'agentpod${name.slice(1)}'`)
    writeFileSync(
      join(project, 'entries.ts'),
      `${imports.join('\n')}
import type { Provider } from 'agentpod/provider'
import type { FakeProvider } from 'agentpod/testing'
${entries.map((_, at) => `console.log(Object.keys(e${at}).length > 0)`).join('\n')}
export const provider = (fake: FakeProvider): Provider => fake
// @ts-expect-error: a type file that did not resolve would make everything \`any\`.
export const wrong: number = e0.Sandbox
`,
    )
  })

  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ] as const)
    test(`compiles with strict settings, type files included, and resolution ${moduleResolution}`, () => {
      const options = {
        target: 'es2024',
        lib: ['es2024', 'esnext.disposable'],
        module,
        moduleResolution,
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        skipLibCheck: false,
        outDir: `out-${moduleResolution}`,
        rootDir: '.',
      }
      const file = join(project, `tsconfig.${moduleResolution}.json`)
      writeFileSync(file, JSON.stringify({ compilerOptions: options, files: ['main.ts', 'entries.ts'] }))
      const tsc = join(ROOT, 'node_modules', '.bin', 'tsc')
      const { status, stdout } = spawnSync(tsc, ['-p', file, '--pretty', 'false'], { encoding: 'utf8' })
      assert.equal(status, 0, stdout)
    })

  test('runs: it makes a sandbox and reads its output, and all entries load', async () => {
    await world.ok(['ls'])
    const run = (name: string): string =>
      execFileSync(process.execPath, [join(project, 'out-nodenext', name)], {
        encoding: 'utf8',
        env: { ...process.env, AGENTPOD_HOME: world.home },
      })
    assert.equal(run('main.js'), '0 42\nnot_found\n')
    assert.match(run('entries.js'), /^(?:true\n)+$/)
  })
})

function script(file: string, text: string): void {
  rmSync(file, { force: true })
  writeFileSync(file, `#!/bin/sh\n${text}\n`)
  chmodSync(file, 0o755)
}
