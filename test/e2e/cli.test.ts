import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { World } from '../support/world.ts'

const world = new World()
before(() => world.ok(['create', '--name', 'box', '--label', 'team=web', '-e', 'GREETING=hello']))
after(() => world[Symbol.asyncDispose]())

test('BOX-10 create prints the id alone, and ls --json shows id, name, state and provider', async () => {
  const out = await world.ok(['create', '--name', 'second'])
  assert.match(out, /^[a-z0-9]{1,20}\n$/)
  const listed = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
  const second = listed.find(({ name }) => name === 'second')
  assert.deepEqual([second?.id, second?.state, second?.provider], [out.trim(), 'running', 'crun'])
  await world.ok(['destroy', 'second'])
})

test('ls filters by label', async () => {
  const names = async (label: string): Promise<(string | null)[]> =>
    (JSON.parse(await world.ok(['ls', '--json', '--label', label])) as SandboxView[]).map(({ name }) => name)
  assert.deepEqual(await names('team=web'), ['box'])
  assert.deepEqual(await names('team=other'), [])
})

test('variables come from create, from exec, from a file and from the caller', async () => {
  const file = join(world.directory(), 'vars')
  writeFileSync(file, '# a comment\nexport FROM_FILE="in file"\n')
  const out = await world.ok(
    [
      'exec',
      '-e',
      'GIVEN=1',
      '-e',
      'PASSED',
      '--env-file',
      file,
      'box',
      '--',
      'sh',
      '-c',
      'echo $GREETING $GIVEN $PASSED $FROM_FILE',
    ],
    { env: { PASSED: 'mine' } },
  )
  assert.equal(out, 'hello 1 mine in file\n')
})

test('no variable of the caller’s environment goes into a sandbox unasked', async () => {
  const out = await world.ok(['exec', 'box', 'env'], { env: { CALLER_SECRET: 'token' } })
  assert.ok(!out.includes('CALLER_SECRET'))
})

test('exec keeps stdout and stderr apart and takes user and directory', async () => {
  const { stdout, stderr } = await world.cli([
    'exec',
    '--user',
    'root',
    '-w',
    '/usr',
    'box',
    '--',
    'sh',
    '-c',
    'pwd; id -un >&2',
  ])
  assert.deepEqual([stdout, stderr], ['/usr\n', 'root\n'])
})

test('exec --json gives the result as one object', async () => {
  const { code, stdout } = await world.cli([
    'exec',
    '--json',
    'box',
    '--',
    'sh',
    '-c',
    'echo out; echo err >&2; exit 3',
  ])
  assert.equal(code, 3)
  assert.deepEqual(JSON.parse(stdout), { exitCode: 3, oomKilled: false, stdout: 'out\n', stderr: 'err\n' })
})

test('exec --timeout ends the command and everything it started', async () => {
  const { code } = await world.cli([
    'exec',
    '--timeout',
    '1s',
    'box',
    '--',
    'sh',
    '-c',
    'sleep 999.5 & sleep 999.5',
  ])
  assert.notEqual(code, 0)
  assert.doesNotMatch(
    await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat /proc/[0-9]*/cmdline | tr "\\0" " "']),
    /sleep 999\.5/,
  )
})

test('exec of a command killed by a signal exits with 128 plus its number', async () => {
  assert.equal((await world.cli(['exec', 'box', '--', 'sh', '-c', 'kill -TERM $$'])).code, 143)
})

test('BOX-1 Ctrl-C reaches the process inside', async () => {
  const child = world.start([
    'exec',
    'box',
    '--',
    'sh',
    '-c',
    'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.05; done',
  ])
  const seen: string[] = []
  child.stdout.on('data', (data: Buffer) => {
    seen.push(data.toString())
    if (data.toString().includes('ready')) child.kill('SIGINT')
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  assert.equal(seen.join(''), 'ready\ncaught\n')
  assert.equal(code, 7)
})

test('a second Ctrl-C of run destroys the sandbox', async () => {
  const child = world.start([
    'run',
    '--no-project',
    '--name',
    'stubborn',
    '--',
    'sh',
    '-c',
    'trap "" INT; echo ready; while :; do sleep 0.05; done',
  ])
  child.stdout.on('data', () => {
    child.kill('SIGINT')
    setTimeout(() => child.kill('SIGINT'), 300)
  })
  assert.equal(await new Promise((resolve) => child.once('close', resolve)), 130)
  assert.doesNotMatch(await world.ok(['ls']), /stubborn/)
})

test('cp copies both ways, with directories, modes and links', async () => {
  const source = world.directory()
  mkdirSync(join(source, 'tree', 'deep'), { recursive: true })
  writeFileSync(join(source, 'tree', 'deep', 'ä file'), 'content')
  writeFileSync(join(source, 'tree', 'tool'), '#!/bin/sh\necho tool\n', { mode: 0o755 })
  symlinkSync('tool', join(source, 'tree', 'link'))
  await world.ok(['cp', join(source, 'tree'), 'box:/home/user/copy'])
  assert.equal(await world.ok(['exec', 'box', '--', '/home/user/copy/link']), 'tool\n')
  const back = world.directory()
  await world.ok(['cp', 'box:/home/user/copy', join(back, 'out')])
  assert.equal(readFileSync(join(back, 'out', 'deep', 'ä file'), 'utf8'), 'content')
  assert.equal(readlinkSync(join(back, 'out', 'link')), 'tool')
  await world.ok(['cp', join(source, 'tree', 'tool'), 'box:/home/user/'])
  assert.equal(await world.ok(['exec', 'box', '--', '/home/user/tool']), 'tool\n')
  await world.ok(['cp', 'box:/home/user/copy/deep/ä file', back])
  assert.equal(readFileSync(join(back, 'ä file'), 'utf8'), 'content')
})

test('logs shows what a process printed, afterwards and while it runs', async () => {
  await world.ok(['exec', 'box', '--', 'sh', '-c', 'echo to be remembered; echo also >&2'])
  const { stdout, stderr } = await world.cli(['logs', 'box'])
  assert.deepEqual([stdout, stderr], ['to be remembered\n', 'also\n'])
  const running = world.cli(['exec', 'box', '--', 'sh', '-c', 'echo first; sleep 1; echo second'])
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal((await world.cli(['logs', 'box'])).stdout, 'first\n')
  assert.equal((await world.cli(['logs', '-f', 'box'])).stdout, 'first\nsecond\n')
  await running
  assert.match(await world.ok(['logs', '--events', 'box']), /sandbox\.creating[\s\S]*sandbox\.running/)
})

test('stats shows plausible numbers', async () => {
  const stats = JSON.parse(await world.ok(['stats', '--json', 'box'])) as Record<string, number>
  // An ordinary user without a cgroup has figures and no limit.
  const limit = stats['memLimitBytes'] || Number.POSITIVE_INFINITY
  assert.ok(process.getuid?.() !== 0 || limit < Number.POSITIVE_INFINITY)
  assert.ok((stats['memBytes'] ?? 0) > 100_000 && (stats['memBytes'] ?? 0) < limit)
  assert.ok((stats['pids'] ?? 0) >= 1)
})

test('help has examples for every command, and none of them needs a server', async () => {
  const overview = (await world.cli(['help'])).stdout
  const names = [...overview.matchAll(/^ {2}([a-z]+) {2}/gm)].map((match) => match[1] ?? '')
  assert.ok(names.length >= 15)
  for (const name of names) {
    const { code, stdout } = await world.cli([name, '--help'], {
      env: { AGENTPOD_HOME: '/nonexistent/home' },
    })
    assert.equal(code, 0)
    assert.match(stdout, /usage: agentpod [\s\S]*examples:\n {2}/, name)
  }
})

/** A mistake, its exit code, and a part of its message. */
const MISTAKES: [string[], number, RegExp][] = [
  [['creat'], 2, /did you mean `agentpod create`/],
  [['create', '--memmory', '1g'], 2, /did you mean --memory/],
  [['create', '--memory', 'lots'], 2, /512m or 2g/],
  [['create', '--memory', '1m'], 2, /memoryMib must be .* from 32/],
  [['create', '--memory', '99999t'], 2, /memoryMib/],
  [['create', '--cpus', '-1'], 2, /cpus/],
  [['create', '--cpus', 'NaN'], 2, /--cpus is a number/],
  [['create', '--base', 'debain'], 2, /did you mean debian/],
  [['create', '--timeout', '0'], 2, /1 second to 30 days/],
  [['create', '--timeout', '9999d'], 2, /1 second to 30 days/],
  [['create', '--name', 'with\nnewline'], 2, /a name is/],
  [['create', '--name', '../etc'], 2, /a name is/],
  [['create', '--name', '-x'], 2, /a name is/],
  [['create', '--name', 'box'], 5, /there is already a sandbox named box/],
  [['create', '--label', 'novalue'], 2, /key=value/],
  [['create', '-e', '1BAD=x'], 2, /not the name of a variable/],
  [['create', '--env-file', '/no/such/file'], 2, /cannot read/],
  [['create', '--user', 'no such user'], 2, /user name/],
  [['create', 'surplus'], 2, /unexpected/],
  [['exec', 'box'], 2, /no command follows/],
  [['exec', 'nosuchbox', 'true'], 125, /there is no sandbox nosuchbox/],
  [['exec', 'nosuchbox', '--', 'true'], 125, /there is no sandbox nosuchbox/],
  [['exec', '../../etc', '--', 'true'], 2, /a name is/],
  // Without `--` it is a program of the project's sandbox.
  [['exec', 'a/b', 'true'], 125, /this project has no sandbox/],
  [['exec', 'box', 'no-such-program'], 125, /no-such-program/],
  [['exec', '-w', '/no/such/dir', 'box', 'true'], 2, /\/no\/such\/dir/],
  [['exec', '--user', 'nobodyhere', 'box', 'true'], 125, /nobodyhere/],
  [['destroy'], 2, /name sandboxes/],
  [['destroy', 'nosuchbox'], 4, /there is no sandbox/],
  [['stats', 'nosuchbox'], 4, /there is no sandbox/],
  [['extend', 'box', 'forever'], 2, /90s, 15m or 1h/],
  [['logs', '--process', '99999', 'box'], 4, /no such process/],
  [['cp', 'a', 'b'], 2, /NAME:PATH/],
  [['cp', 'box:/no/such', '.'], 4, /no/],
  [['cp', '/no/such', 'box:/tmp'], 2, /cannot read/],
  [['reset'], 2, /--yes/],
  [['server', 'begin'], 2, /unknown: server begin/],
]

for (const [args, code, message] of MISTAKES) {
  test(`BOX-1 BOX-11 agentpod ${JSON.stringify(args.join(' '))} is one clear error`, async () => {
    const result = await world.cli(args)
    assert.equal(result.code, code, result.stderr)
    assert.match(result.stderr, message)
    assert.equal(result.stdout, '')
    assert.match(result.stderr, /^error: .*\n(hint: .*\n)?$/)
  })
}

test('BOX-11 after all those mistakes the server works and only the one sandbox is left', async () => {
  const listed = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['box'],
  )
  assert.equal(await world.ok(['exec', 'box', 'echo', 'well']), 'well\n')
})

test('BOX-11 with --json errors are JSON', async () => {
  const { stderr } = await world.cli(['stats', '--json', 'nosuchbox'])
  assert.equal((JSON.parse(stderr) as { error: { code: string } }).error.code, 'not_found')
})

test('a state directory that cannot be created is one clear error', async () => {
  const { code, stderr } = await world.cli(['ls'], { env: { AGENTPOD_HOME: '/proc/nowhere' } })
  assert.equal(code, 6)
  assert.match(stderr, /hint: set AGENTPOD_HOME/)
})

test('BOX-10 a state directory with a very long path works', async () => {
  const deep = join(world.directory(), 'x'.repeat(60), 'y'.repeat(60))
  await using far = new World({ home: deep })
  mkdirSync(deep, { recursive: true })
  assert.equal(await far.ok(['run', '--no-project', '--', 'echo', 'far'], { cwd: '/' }), 'far\n')
})

test('twelve commands at once in a new state directory share one server', async () => {
  await using fresh = new World()
  const all = await Promise.all(Array.from({ length: 12 }, () => fresh.cli(['ls', '--json'])))
  assert.deepEqual(
    all.map(({ code, stdout, stderr }) => ({ code, stdout, stderr })),
    all.map(() => ({ code: 0, stdout: '[]\n', stderr: '' })),
  )
})

test('doctor says that sandboxes work here', async () => {
  const { code, stdout } = await world.cli(['doctor'])
  assert.equal(code, 0, stdout)
  assert.match(stdout, /Sandboxes work here/)
})
