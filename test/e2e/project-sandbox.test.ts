/** Commands that name no sandbox mean the one of the project that the user is in. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function repository(): string {
  const directory = world.directory()
  const git = (...args: string[]): void => void execFileSync('git', args, { cwd: directory })
  git('init', '-q')
  mkdirSync(join(directory, 'sub', 'deep'), { recursive: true })
  writeFileSync(join(directory, 'sub', 'deep', 'a.txt'), 'deep\n')
  git('add', '-A')
  git('-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '-q', '-m', 'a')
  return directory
}

const keep = (cwd: string, name: string): Promise<string> =>
  world.ok(['run', '--bare', '--keep', '--name', name, '--', 'true'], { cwd })

test('LIFE-1 exec, shell, logs, cp and port mean the kept sandbox of the project, and say which one', async () => {
  const cwd = repository()
  const inside = `/home/user/${basename(cwd)}`
  const none = await world.cli(['exec', 'pwd'], { cwd })
  assert.equal(none.code, 125)
  assert.match(none.stderr, /no sandbox pwd, and this project has no sandbox that runs or is kept/)
  assert.match(none.stderr, /agentpod dev.*agentpod run --keep.*agentpod exec NAME -- COMMAND/)
  // A run that is not kept is nobody's sandbox afterwards.
  await world.ok(['run', '--bare', '--', 'true'], { cwd })
  assert.equal((await world.cli(['exec', '--', 'pwd'], { cwd })).code, 125)
  await keep(cwd, 'box')
  const [{ id }] = JSON.parse(await world.ok(['ls', '--json'])) as [SandboxView]
  // From the top, from below, with options, as words, after --, and as a line for a shell.
  const line = await world.cli(['exec', 'echo a | cat; pwd'], { cwd })
  assert.deepEqual([line.code, line.stdout], [0, `a\n${inside}\n`])
  assert.equal(line.stderr, `in box (${id}), this project’s sandbox\n`)
  const deep = join(cwd, 'sub', 'deep')
  assert.equal(await world.ok(['exec', 'cat a.txt'], { cwd: deep }), 'deep\n')
  assert.equal(await world.ok(['exec', '-e', 'A=1', 'printenv', 'A'], { cwd: deep }), '1\n')
  assert.equal(await world.ok(['exec', '--', 'echo', '--', 'x'], { cwd }), '-- x\n')
  assert.equal(await world.ok(['exec', '-w', '/tmp', 'pwd'], { cwd }), '/tmp\n')
  // A directory that the copy does not have yet.
  mkdirSync(join(cwd, 'new'))
  const lost = await world.cli(['exec', 'touch wrong'], { cwd: join(cwd, 'new') })
  assert.equal(lost.code, 125)
  assert.match(lost.stderr, /: new is not in the sandbox box \(/)
  assert.ok(lost.stderr.includes(`-w ${inside}`), lost.stderr)
  assert.equal(await world.ok(['exec', 'ls'], { cwd }), 'sub\n')
  assert.equal(await world.ok(['exec', '-w', inside, 'pwd'], { cwd: join(cwd, 'new') }), `${inside}\n`)
  // As before with a name, from anywhere, with options after it.
  assert.equal((await world.cli(['exec', 'box', '-w', '/tmp', '--', 'pwd'])).stdout, '/tmp\n')
  assert.equal((await world.cli(['exec', 'bix', '--', 'pwd'], { cwd })).code, 125)
  assert.deepEqual((await world.cli(['exec', 'box'], { cwd })).code, 2)
  const json = JSON.parse(await world.ok(['exec', '--json', 'echo a'], { cwd })) as Record<string, unknown>
  assert.deepEqual([json['sandbox'], json['stdout']], [{ id, name: 'box' }, 'a\n'])
  assert.equal('sandbox' in (JSON.parse(await world.ok(['exec', '--json', 'box', 'true'])) as object), false)
  // A shell of the project is one in its sandbox; with --new, or an option of a new sandbox, it is another.
  const shell = await world.cli(['shell'], { cwd: deep, input: 'touch /tmp/seen; pwd\n' })
  assert.equal(shell.stdout, `${inside}/sub/deep\n`)
  assert.match(shell.stderr, /^in box /)
  const fresh = await world.cli(['shell', '--new', '--bare'], { cwd, input: 'ls /tmp/seen\n' })
  assert.match(fresh.stderr, /No such file/)
  assert.match(await world.ok(['logs', '--list'], { cwd }), /\/bin\/sh/)
  const events = JSON.parse(await world.ok(['logs', '--json', '--events'], { cwd })) as {
    sandbox: { id: string }
    events: { type: string }[]
  }
  assert.equal(events.sandbox.id, id)
  assert.equal(events.events[0]?.type, 'sandbox.creating')
  writeFileSync(join(cwd, 'in.txt'), 'in\n')
  await world.ok(['cp', 'in.txt', ':out.txt'], { cwd })
  await world.ok(['cp', `:${inside}/out.txt`, 'back.txt'], { cwd: deep })
  assert.equal(readFileSync(join(deep, 'back.txt'), 'utf8'), 'in\n')
  assert.equal(await world.ok(['cp', ':a.txt', '-'], { cwd: deep }), 'deep\n')
  const port = JSON.parse(await world.ok(['port', '--json', '8080'], { cwd })) as Record<string, unknown>
  assert.deepEqual(port['sandbox'], { id, name: 'box' })
})

test('LIFE-1 a name goes first, one that runs goes before others, and of several one has to be named', async () => {
  const cwd = repository()
  await keep(cwd, 'one')
  await keep(cwd, 'printenv')
  const several = await world.cli(['exec', 'true x'], { cwd })
  assert.equal(several.code, 125)
  assert.match(
    several.stderr,
    /this project has several sandboxes: printenv \(.*\), running, \d+s old; one \(.*\), running, \d+s old/,
  )
  assert.match(several.stderr, /name one: agentpod exec NAME -- COMMAND/)
  assert.equal((await world.cli(['shell'], { cwd })).code, 125)
  // A sandbox has the name of a program: the name wins.
  assert.equal(await world.ok(['exec', 'printenv', 'hostname'], { cwd }), 'printenv\n')
  await world.ok(['stop', 'one'])
  assert.equal(await world.ok(['exec', 'hostname; true'], { cwd }), 'printenv\n')
  await world.ok(['destroy', 'printenv'])
  // It is woken, and that is said.
  const woken = await world.cli(['exec', 'hostname; true'], { cwd })
  assert.deepEqual([woken.code, woken.stdout], [0, 'one\n'])
  assert.match(woken.stderr, /in one .*, which was stopped/)
  // The files of another working tree are others: it is offered, never taken.
  const tree = join(world.directory(), 'tree')
  execFileSync('git', ['worktree', 'add', '-q', tree], { cwd, stdio: 'ignore' })
  const other = await world.cli(['exec', 'pwd; true'], { cwd: tree })
  assert.equal(other.code, 125)
  assert.match(other.stderr, /another working tree has one, one of /)
  await keep(tree, 'two')
  assert.equal(await world.ok(['exec', 'hostname; true'], { cwd: tree }), 'two\n')
  assert.equal(await world.ok(['exec', 'hostname; true'], { cwd }), 'one\n')
  // Labels do not make a sandbox the project's.
  const [{ labels }] = (JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]).filter(
    ({ name }) => name === 'one',
  ) as [SandboxView]
  const forged = Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`])
  await world.ok(['create', '--name', 'forged', ...forged])
  assert.equal(await world.ok(['exec', 'hostname; true'], { cwd }), 'one\n')
})

test('LIFE-1 while dev runs, its sandbox is the project’s, also where there is no repository', async () => {
  const cwd = world.directory()
  writeFileSync(join(cwd, 'agentpod.toml'), '[lifecycle]\ndev = "echo begun; sleep 600"\n')
  mkdirSync(join(cwd, 'sub'))
  writeFileSync(join(cwd, 'sub', 'a.txt'), '')
  const child = world.start(['dev', '--name', 'web'], { cwd })
  let text = ''
  child.stdout.on('data', (data: Buffer) => (text += data.toString()))
  await until('the dev command runs', () => text.includes('begun'), 60_000)
  assert.equal(await world.ok(['exec', 'ls'], { cwd: join(cwd, 'sub') }), 'a.txt\n')
  child.kill('SIGINT')
  await new Promise((resolve) => child.once('close', resolve))
  assert.equal((await world.cli(['exec', 'ls'], { cwd })).code, 125)
})
