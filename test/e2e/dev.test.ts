import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { ROOT, until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const PORT = 38_471

/** A page is what its file says; an interrupt is answered in its own way. */
const SERVER = `
const { createServer } = require('node:http')
const { readFileSync } = require('node:fs')
process.on('SIGINT', () => { console.log('bye'); setTimeout(() => process.exit(7), 50) })
createServer((_, response) => response.end(readFileSync('page.txt')))
  .listen(${PORT}, '127.0.0.1', () => console.log('listening', ...process.argv.slice(2)))
`

function project(files: Readonly<Record<string, string>> = {}, toml = ''): string {
  const directory = world.directory()
  execFileSync('git', ['init', '-q'], { cwd: directory })
  const all = {
    'agentpod.toml': `
[lifecycle]
dev = "node server.js"
[ports]
${PORT} = { label = "Page" }
[services]
ticker = { run = "touch /tmp/ticks; while :; do echo tick; sleep 0.2; done", ready = "test -f /tmp/ticks" }
${toml}`,
    'server.js': SERVER,
    'page.txt': 'first\n',
    '.gitignore': 'ignored\n.env\n',
    ...files,
  }
  for (const [path, text] of Object.entries(all)) writeFileSync(join(directory, path), text)
  return directory
}

interface Dev {
  readonly child: ChildProcessWithoutNullStreams
  readonly cwd: string
  /** What it has written so far, on both streams. */
  readonly text: () => string
  inside(script: string): Promise<string>
  /** Resolves when it has ended, on its own or by a signal. */
  end(signal?: NodeJS.Signals): Promise<number>
}

function dev(cwd: string, name: string, ...args: string[]): Dev {
  const child = world.start(['dev', '--name', name, ...args], { cwd })
  const written: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => written.push(data))
  const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)))
  return {
    child,
    cwd,
    text: () => Buffer.concat(written).toString('utf8'),
    inside: (script) =>
      world.ok(['exec', '-w', `/home/user/${basename(cwd)}`, name, '--', 'sh', '-c', script]),
    async end(signal) {
      if (signal) child.kill(signal)
      return ended
    },
  }
}

async function listening(running: Dev, isForwarded = true): Promise<void> {
  await until(
    'the dev command listens, and where is said',
    () => {
      if (running.child.exitCode !== null) throw new Error(running.text())
      const isSaid = !isForwarded || /^http:\/\/127\.0\.0\.1:/m.test(running.text())
      return isSaid && running.text().includes('listening')
    },
    60_000,
  )
}

async function nothingIsLeft(): Promise<void> {
  assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[], [])
}

test('dev starts services, runs the dev command, brings its port here, and ends with it', async () => {
  const cwd = project({
    'server.js': `console.log('starting'); while (!require('node:fs').existsSync('go')); require('./late.js')`,
    'late.js': SERVER,
  })
  const running = dev(cwd, 'plain', '--', 'with', 'words')
  await until('the dev command runs', () => running.text().includes('starting'), 60_000)
  // E15: an address where nothing listens yet is not said.
  // The first sandbox of an ordinary user comes with notes about limits.
  assert.equal(running.text().replace(/^note: .*\n/gm, ''), 'ready: ticker\nstarting\n')
  await running.inside('touch go')
  await listening(running)
  assert.match(running.text(), new RegExp(`^http://127\\.0\\.0\\.1:${PORT}  Page$`, 'm'))
  assert.match(running.text(), /listening with words/)
  assert.equal(await (await fetch(`http://127.0.0.1:${PORT}/`)).text(), 'first\n')
  const [sandbox] = JSON.parse(
    await world.ok(['ls', '--json', '--label', 'agentpod/dev=true']),
  ) as SandboxView[]
  assert.equal(sandbox?.name, 'plain')
  // The log of a service is apart from that of the command.
  assert.match(await world.ok(['logs', '--service', 'ticker', 'plain']), /^(tick\n)+$/)
  assert.match(await world.ok(['logs', '--list', 'plain']), /^\d+ +running +ticker +\/bin\/sh/m)
  const wrong = await world.cli(['logs', '--service', 'tickr', 'plain'])
  assert.equal(wrong.code, 4)
  assert.match(wrong.stderr, /did you mean ticker/)
  // Without --sync nothing passes; what changed inside is listed at the end.
  await running.inside('echo inside > page.txt')
  writeFileSync(join(cwd, 'server.js'), '// here')
  assert.equal(await (await fetch(`http://127.0.0.1:${PORT}/`)).text(), 'inside\n')
  assert.equal(await running.end('SIGINT'), 7)
  assert.match(running.text(), /bye\n[\s\S]*modified +page\.txt/)
  assert.equal(readFileSync(join(cwd, 'page.txt'), 'utf8'), 'first\n')
  await nothingIsLeft()
  await assert.rejects(fetch(`http://127.0.0.1:${PORT}/`))
})

test('ENV-13 with --sync changes pass both ways, conflicts keep both, and hostile files stay inside', async () => {
  const cwd = project({
    'both.txt': 'one\n',
    'gone.txt': 'one\n',
    'doomed.txt': 'one\n',
    '.env': 'KEY=secret\n',
  })
  const at = (path: string): string => join(cwd, path)
  const read = (path: string): string => readFileSync(at(path), 'utf8')
  // The number is taken here, so the port comes under another one.
  const other = createServer().listen(PORT, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  const running = dev(cwd, 'synced', '--sync')
  try {
    await listening(running)
    const local = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(running.text())?.[1])
    assert.notEqual(local, PORT)
    assert.match(running.text(), new RegExp(`port ${PORT} inside; ${PORT} is in use here`))

    writeFileSync(at('page.txt'), 'edited here\n')
    const page = async (): Promise<string> => (await fetch(`http://127.0.0.1:${local}/`)).text()
    await until('an edit here is inside', async () => (await page()) === 'edited here\n')
    await running.inside(
      'echo edited inside > page.txt; mkdir -p new/deep; echo made > new/deep/file; chmod +x new/deep/file',
    )
    await until('an edit inside is here', () => read('page.txt') === 'edited inside\n')
    await until('a new file of the inside is here', () => existsSync(at('new/deep/file')))
    assert.equal(lstatSync(at('new/deep/file')).mode & 0o111, 0o111)

    // Removed on one side; removed on one and edited on the other.
    rmSync(at('doomed.txt'))
    await until(
      'a removal here is one inside',
      async () => !(await running.inside('ls')).includes('doomed.txt'),
    )
    await running.inside('rm new/deep/file')
    await until('a removal inside is one here', () => !existsSync(at('new')))

    // Both sides change while no sync runs.
    running.child.kill('SIGSTOP')
    await running.inside('echo theirs > both.txt; rm gone.txt')
    writeFileSync(at('both.txt'), 'mine\n')
    writeFileSync(at('gone.txt'), 'mine\n')
    running.child.kill('SIGCONT')
    await until('the conflict is settled', async () => {
      const there = await running.inside('cat both.txt; if [ -f gone.txt ]; then cat gone.txt; fi')
      return there === 'mine\nmine\n' && existsSync(at('both.txt.agentpod-conflict-1'))
    })
    assert.deepEqual(['both.txt', 'both.txt.agentpod-conflict-1', 'gone.txt'].map(read), [
      'mine\n',
      'theirs\n',
      'mine\n',
    ])
    assert.match(
      running.text(),
      /sync: conflict: both\.txt was changed on both sides; yours is kept, the sandbox’s version is in both\.txt\.agentpod-conflict-1\n/,
    )

    // SECURITY: what would lead out of the project stays inside, and what is ignored here stays here.
    const victim = world.directory()
    symlinkSync(victim, at('mine'))
    await running.inside(
      `ln -s ${victim} out; ln -s ../../../../../../etc up; mkdir -p .GIT/hooks; echo x > .GIT/hooks/pre-commit; ln -s page.txt fine; printf '' > .gitignore; echo built > ignored; mkdir -p docs/objects docs/refs; echo x | tee docs/objects/x > docs/refs/x; echo 'ref: refs/heads/main' > docs/HEAD; echo last > control`,
    )
    await until('the control is here', () => existsSync(at('control')) && existsSync(at('fine')))
    await until('it is said', () =>
      /sync: out is not synced: the link points outside the project/.test(running.text()),
    )
    assert.equal(readlinkSync(at('fine')), 'page.txt')
    await until('it is said', () =>
      /sync: docs\/HEAD is not synced: it would be part of/.test(running.text()),
    )
    for (const path of ['out', 'up', '.GIT', 'ignored', '.git/hooks/pre-commit', 'docs/HEAD'])
      assert.ok(!existsSync(at(path)), path)
    assert.equal(read('.gitignore'), 'ignored\n.env\n')
    assert.deepEqual(readdirSync(victim), [])
    writeFileSync(at('.env'), 'KEY=another secret\n')
    writeFileSync(at('later'), 'control\n')
    await until('the control is inside', async () => (await running.inside('ls')).includes('later'))
    assert.doesNotMatch(await running.inside('ls -A'), /\.env/)

    // An unreadable directory is not a removed one.
    await running.inside('mkdir shut; echo kept > shut/file')
    await until('the file is here', () => existsSync(at('shut/file')))
    await running.inside('chmod 0 shut; echo done > closed')
    await until('the control is here', () => existsSync(at('closed')))

    // What is written at the last moment comes out before the sandbox is gone.
    await running.inside('echo last words > last.txt')
    assert.equal(await running.end('SIGINT'), 7)
    assert.equal(read('last.txt'), 'last words\n')
    assert.equal(read('shut/file'), 'kept\n')
    assert.equal(read('.env'), 'KEY=another secret\n')
    await nothingIsLeft()
  } finally {
    other.close()
    running.child.kill('SIGKILL')
  }
})

test('on a terminal Ctrl-C reaches the dev command as a key, and dev ends with it', async () => {
  const child = spawn(
    'python3',
    [join(ROOT, 'test/support/drive-terminal.py'), join(ROOT, 'agentpod'), 'dev', '--sync', '--no-forward'],
    {
      cwd: project(),
      env: { ...process.env, AGENTPOD_HOME: world.home, TERM: 'xterm-256color' },
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  child.stdin.end(JSON.stringify([{ expect: 'listening' }, { send: '\u0003' }, { expect: 'bye' }]))
  let text = ''
  for await (const chunk of child.stdout) text += chunk
  const { code, stuck, screen } = JSON.parse(text) as { code: number; stuck: string | null; screen: string }
  assert.equal(stuck, null, screen)
  assert.equal(code, 7, screen)
  await nothingIsLeft()
})

test('dev that is interrupted twice ends at once, and --keep keeps the sandbox', async () => {
  const stubborn = `trap "" INT; echo listening; while :; do sleep 0.05; done`
  const cwd = project({ 'stubborn.sh': stubborn })
  writeFileSync(
    join(cwd, 'agentpod.toml'),
    readFileSync(join(cwd, 'agentpod.toml'), 'utf8').replace('node server.js', 'sh stubborn.sh'),
  )
  const running = dev(cwd, 'stubborn', '--no-forward')
  await listening(running, false)
  assert.doesNotMatch(running.text(), /127\.0\.0\.1/)
  running.child.kill('SIGINT')
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(await running.end('SIGINT'), 130)
  await nothingIsLeft()

  writeFileSync(join(cwd, 'stubborn.sh'), 'echo listening; exit 3')
  const kept = dev(cwd, 'kept', '--keep')
  assert.equal(await kept.end(), 3)
  assert.match(kept.text(), /kept: .*agentpod destroy kept/)
  await world.ok(['destroy', 'kept'])
  await nothingIsLeft()
})

test('dev without a known dev command says how to set one, and creates nothing', async () => {
  const cwd = world.directory()
  mkdirSync(join(cwd, 'empty'))
  const { code, stderr } = await world.cli(['dev'], { cwd })
  assert.equal(code, 125)
  assert.match(stderr, /hint: set one in agentpod\.toml: \[lifecycle\] dev = "\.\.\."/)
  await nothingIsLeft()
})
