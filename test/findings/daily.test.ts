/** What outside verification found in daily use: the SDK, the command line, an older server. */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { ROOT, until, World } from '../support/world.ts'

const AGENTPOD = join(ROOT, 'agentpod')
const DRIVE = join(ROOT, 'test', 'support', 'drive-terminal.py')
const world = new World()
let box: Sandbox

before(async () => {
  await world.ok(['create', '--name', 'box'])
  box = await world.client().get('box')
})
after(() => world[Symbol.asyncDispose]())

test('A12: a command of the SDK starts at once, and pid and signal settle without reading', async () => {
  const command = box.exec('/bin/sh', { args: ['-c', 'touch /tmp/started; exec sleep 600'] })
  assert.ok((await command.pid) > 1)
  await until('it has started', async () => (await box.list('/tmp')).some(({ name }) => name === 'started'))
  await command.signal('TERM')
  assert.equal((await command.wait()).signal, 'SIGTERM')
})

test('A12: spawn leaves a command to itself, keeps its output, and kill ends it', async () => {
  const spawned = await box.spawn('/bin/sh', { args: ['-c', 'echo early; exec sleep 600'] })
  const isRunning = async (): Promise<boolean> => {
    const pid = await spawned.pid
    return (await box.processes()).some((one) => one.pid === pid && one.endedAt === undefined)
  }
  assert.ok(await isRunning())
  await spawned.kill()
  const { stdout, signal } = await spawned.wait()
  assert.deepEqual([stdout, signal], ['early\n', 'SIGKILL'])
  assert.equal(await isRunning(), false)
})

test('A12: the code of the SDK’s guide works as written', () => {
  const guide = readFileSync(join(ROOT, 'docs', 'guides', 'sdk.md'), 'utf8')
  const code = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block = '']) => block).join('\n')
  assert.ok(code.includes('spawn') && code.includes('.port(3000)'))
  const file = join(world.directory(), 'guide.ts')
  writeFileSync(file, code.replace("'agentpod'", JSON.stringify(join(ROOT, 'src', 'exports', 'client.ts'))))
  const said = execFileSync(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    encoding: 'utf8',
    env: { ...process.env, AGENTPOD_HOME: world.home },
  })
  for (const part of [/^0 hello$/m, /stdout to be read/, /ended by SIGKILL/, /<h1>/, /serves at http/])
    assert.match(said, part)
})

test('A15: a command says that the background server is of another version', async () => {
  const note = /the server in the background is version 0\.0\.9/
  assert.doesNotMatch((await world.cli(['ls'])).stderr, note, 'the control')
  const file = join(world.home, 'run', 'server.json')
  const kept = readFileSync(file, 'utf8')
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(kept) as object), version: '0.0.9' }))
  const { stderr, code } = await world.cli(['ls'])
  writeFileSync(file, kept)
  assert.equal(code, 0)
  assert.match(stderr, note)
  assert.match(stderr, /agentpod server stop/)
})

describe('A15: a server of another build of the same version', () => {
  const others = new World()
  const directory = others.directory()
  const build = (): string =>
    buildIn(
      JSON.parse(spawnSync(AGENTPOD, ['server', '--json'], { encoding: 'utf8', env: environment() }).stdout),
    )
  const environment = (): NodeJS.ProcessEnv => ({ ...process.env, NO_COLOR: '1', AGENTPOD_HOME: others.home })
  const note = /another build of version \S+ \(0123456789ab\) than this command \([0-9a-f]{12}\)/

  /** Starts a server of a build that differs from ours in nothing but its id. */
  before(async () => {
    const id = buildIn(JSON.parse(await world.ok(['server', '--json'])))
    for (const name of readdirSync(join(ROOT, 'dist')))
      if (name.endsWith('.js'))
        writeFileSync(
          join(directory, name),
          readFileSync(join(ROOT, 'dist', name), 'utf8').replaceAll(id, '0123456789ab'),
        )
    symlinkSync(join(ROOT, 'dist', 'bin'), join(directory, 'bin'))
    const said = spawnSync(process.execPath, [join(directory, 'cli.js'), 'create', '--name', 'old'], {
      encoding: 'utf8',
      env: environment(),
    })
    assert.equal(said.status, 0, said.stderr)
    assert.doesNotMatch(said.stderr, note, 'the control: its own command has nothing to say')
  })
  after(() => others[Symbol.asyncDispose]())

  const atTerminal = (answer: string | undefined): { code: number; screen: string } => {
    const steps = answer === undefined ? [] : [{ expect: '\\[y/N\\]' }, { send: `${answer}\r` }]
    const driven = spawnSync('/usr/bin/python3', [DRIVE, AGENTPOD, 'ls'], {
      input: JSON.stringify(steps),
      encoding: 'utf8',
      env: environment(),
    })
    return JSON.parse(driven.stdout) as { code: number; screen: string }
  }

  test('A15: a server of another build is named, with the command that ends it, where nobody can be asked', async () => {
    const { stderr, code } = await others.cli(['ls'])
    assert.equal(code, 0)
    assert.match(stderr, note)
    assert.match(stderr, /agentpod server stop.*sandboxes and runs go on/)
    assert.equal(build(), '0123456789ab')
  })

  test('A15: a server of another build stays after a no, which is asked for once', () => {
    const pid = others.serverPid
    const no = atTerminal('n')
    assert.match(no.screen, /restart it now\? 1 sandbox and what runs in it go on/)
    const again = atTerminal(undefined)
    assert.match(again.screen, note)
    assert.doesNotMatch(again.screen, /restart it now/)
    assert.deepEqual([no.code, again.code, others.serverPid], [0, 0, pid])
  })

  test('A15: a server of another build is replaced after a yes, and its sandboxes keep running', async () => {
    rmSync(join(others.home, 'run', 'restart-declined'))
    await others.ok(['exec', 'old', '--', 'sh', '-c', 'echo kept > /tmp/kept'])
    const pid = others.serverPid
    const yes = atTerminal('y')
    assert.equal(yes.code, 0, yes.screen)
    assert.match(yes.screen, /the server was restarted[\s\S]*old/)
    assert.notEqual(others.serverPid, pid)
    assert.notEqual(build(), '0123456789ab')
    const { stdout, stderr } = await others.cli(['exec', 'old', '--', 'cat', '/tmp/kept'])
    assert.deepEqual([stdout, stderr], ['kept\n', ''])
  })

  test('A15: a server of another build that the user started is theirs to restart', async () => {
    await others.ok(['server', 'stop'])
    const own = spawn(process.execPath, [join(directory, 'cli.js'), 'serve'], {
      env: environment(),
      stdio: 'ignore',
    })
    const ended = once(own, 'exit')
    await until('it serves', () => {
      const { stdout } = spawnSync(AGENTPOD, ['server', '--json'], { encoding: 'utf8', env: environment() })
      return (JSON.parse(stdout) as { pid?: number }).pid === own.pid
    })
    const shown = atTerminal(undefined)
    own.kill('SIGTERM')
    await ended
    assert.match(shown.screen, note)
    assert.match(shown.screen, /restart it where it was started/)
    assert.doesNotMatch(shown.screen, /restart it now/)
  })
})

function buildIn(server: unknown): string {
  const { build } = server as { build?: unknown }
  assert.ok(typeof build === 'string')
  assert.match(build, /^[0-9a-f]{12}$/)
  return build
}

test('A17: one word with spaces is a line for a shell', async () => {
  assert.equal(await world.ok(['exec', 'box', 'echo hi | tr h H']), 'Hi\n')
  assert.equal(
    await world.ok(['exec', 'box', '--', 'echo', 'a  b']),
    'a  b\n',
    'several words are a program’s',
  )
})

test('A17: cp reads stdin and writes stdout where a side is -', async () => {
  const bytes = Buffer.from([0, 1, 2, 10])
  await world.ok(['cp', '-', 'box:/tmp/from-stdin'], { input: bytes })
  assert.equal(await world.ok(['cp', 'box:/tmp/from-stdin', '-']), bytes.toString())
})

test('A17: amounts without a unit are refused, and rm leads to destroy', async () => {
  for (const option of ['--memory', '--disk', '--timeout', '--idle']) {
    const { code, stderr } = await world.cli(['create', option, '100'])
    assert.equal(code, 2, option)
    assert.match(stderr, new RegExp(`${option} 100 has no unit\nhint: use 100`))
  }
  assert.match((await world.cli(['rm', 'box'])).stderr, /did you mean `agentpod destroy`/)
})

/** A file where a path needs a directory. */
function blockedPath(): string {
  const file = join(world.directory(), 'file')
  writeFileSync(file, '')
  return join(file, 'below')
}

test('A17: a path that cannot be used is said in plain words, with a hint', async () => {
  const [below, directory] = [blockedPath(), world.directory()]
  await world.ok(['snapshot', 'box', '--name', 'paths'])
  const calls: readonly (readonly [readonly string[], RegExp])[] = [
    [['cp', below, 'box:/tmp/'], /a part of this path is a file, not a directory/],
    [['cp', 'box:/etc/passwd', below], /a part of this path is a file, not a directory/],
    [['cp', 'box:/etc', below], /a part of this path is a file, not a directory/],
    [['create', '--env-file', below], /a part of this path is a file, not a directory/],
    [['create', '--env-file', directory], /it is a directory/],
    [['snapshot', 'export', 'paths', below], /a part of this path is a file, not a directory/],
    [['snapshot', 'import', below], /a part of this path is a file, not a directory/],
    [['snapshot', 'import', directory], /it is a directory/],
  ]
  for (const [words, says] of calls) {
    const { code, stderr } = await world.cli(words)
    assert.equal(code, 2, words.join(' '))
    assert.match(stderr, says, words.join(' '))
    assert.match(stderr, /^hint: /m, words.join(' '))
    assert.doesNotMatch(stderr, /ENOTDIR|EISDIR|errno|syscall/, words.join(' '))
  }
})

function assertNamesState({ code, stderr }: { readonly code: number | null; readonly stderr: string }): void {
  assert.equal(code, 6, stderr)
  assert.match(stderr, /the state directory .* cannot be used: (permission denied|a part of this path)/)
  assert.match(stderr, /hint: set AGENTPOD_HOME to a directory you own/)
  assert.doesNotMatch(stderr, /EACCES|ENOTDIR/)
}

test('A17: a state directory that cannot be used is named, with what to do', async () => {
  const env = { AGENTPOD_HOME: blockedPath() }
  for (const words of [['ls'], ['context', 'add', 'a', 'http://localhost:1']])
    assertNamesState(await world.cli(words, { env }))
})

const COMMAND = join(ROOT, 'agentpod')
const NOBODY = ['--reuid', '65534', '--regid', '65534', '--clear-groups', '--']
const canBeNobody = spawnSync('setpriv', [...NOBODY, 'test', '-r', COMMAND]).status === 0

test("A17: another user's state directory is named, with what to do", {
  skip: !canBeNobody && 'needs root, and a clone that everyone may read',
}, () => {
  const closed = world.directory()
  chmodSync(closed, 0o755)
  for (const [word, home] of [
    ['ls', join(closed, 'home')],
    ['context', world.home],
  ] as const) {
    const env = { ...process.env, NO_COLOR: '1', AGENTPOD_HOME: home }
    const o = { encoding: 'utf8', cwd: '/', env } as const
    const { status: code, stderr } = spawnSync('setpriv', [...NOBODY, COMMAND, word], o)
    assertNamesState({ code, stderr })
  }
})

test('A17: net log shows a refusal and its repetition at once', async () => {
  const refused = async (): Promise<number> => {
    await world.cli(['exec', 'box', '--', 'curl', '-s', 'http://refused.test/'])
    const lines = (await world.ok(['net', 'log', '--json', 'box'])).trim().split('\n')
    const counts = lines.map((line) => (JSON.parse(line || '{"data":{}}') as { data: Decision }).data)
    return counts.reduce((sum, { host, count = 0 }) => sum + (host === 'refused.test' ? count : 0), 0)
  }
  assert.deepEqual([await refused(), await refused(), await refused()], [1, 2, 3])
})

interface Decision {
  readonly host?: string
  readonly count?: number
}

test('A17: completion offers agents and sandboxes, and starts no server', async () => {
  const complete = (home: string, ...words: string[]): string[] => {
    const script = `source <(agentpod completion bash); COMP_WORDS=(agentpod "$@"); COMP_CWORD=$#; _agentpod; printf '%s\\n' "\${COMPREPLY[@]}"`
    const path = `${ROOT}:${process.env['PATH']}`
    const env = { ...process.env, PATH: path, AGENTPOD_HOME: home }
    return execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8', env, cwd: '/' }).split(
      '\n',
    )
  }
  assert.ok(complete(world.home, 'run', 'cl').includes('claude'))
  assert.ok(complete(world.home, 'destroy', '').includes('box'))
  const fresh = world.directory()
  assert.ok(!complete(fresh, 'destroy', '').includes('box'))
  assert.deepEqual(existsSync(join(fresh, 'run', 'server.json')), false, 'no server was started')
})
