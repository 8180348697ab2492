/**
 * Findings of the outside verification about environments at run time: builds that fail, networks, options,
 * services, ports.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { NOT_LONG } from '../support/long.ts'
import { type CliResult, until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

/** A directory with these files. */
function project(files: Readonly<Record<string, string>>): string {
  const directory = world.directory()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
  return directory
}

function repository(files: Readonly<Record<string, string>>): string {
  const directory = project(files)
  const git = (...args: string[]): Buffer => execFileSync('git', args, { cwd: directory })
  git('init', '-q', '-b', 'main')
  git('add', '.')
  git('-c', 'user.name=u', '-c', 'user.email=u@localhost', 'commit', '-qm', 'begin')
  return directory
}

const call = (cwd: string, ...args: string[]): Promise<CliResult> =>
  world.cli(args, { cwd, timeoutMs: 240_000 })

const toml = (setup: string, more = ''): string =>
  `[environment]\nbase = "host"\n[lifecycle]\nsetup = ${JSON.stringify(setup)}\ntest = "echo tested"\n${more}`

test('E1: a failing installation fails the build, and nothing of it is kept', {
  skip: NOT_LONG,
}, async () => {
  const directory = project({
    'requirements.txt': 'agentpod-no-such-package==9.9.9\n',
    'test_a.py': 'def test_a(): pass\n',
  })
  const { code, stdout, stderr } = await call(directory, 'test')
  assert.notEqual(code, 0, stdout)
  assert.match(stderr, /failed: exit code 1/)
  assert.doesNotMatch(stdout, /1 passed/)
  const kept = await call(directory, 'prune', '--keep', '0GB', '--dry-run', '--json')
  assert.deepEqual(JSON.parse(kept.stdout).removed, [], 'the layer was not kept')
})

test('E1: a list whose first member fails is a step that fails', async () => {
  const directory = project({ 'agentpod.toml': toml('false && true') })
  const { code, stdout, stderr } = await call(directory, 'test')
  assert.notEqual(code, 0)
  assert.match(stderr, /the step "dependencies, by your command" failed: exit code 1/)
  assert.doesNotMatch(stdout, /tested/)
})

test('E2: in a repository with an environment a command reaches what its preset names', async () => {
  const directory = repository({ 'package.json': '{"name":"a","version":"1.0.0"}' })
  const { code, stdout, stderr } = await call(
    directory,
    ...['run', '--preset', 'npm', '--', 'npm', 'view', 'is-odd', 'version'],
  )
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^\d+\.\d+\.\d+$/m)
})

test('E3: after a run a step can be built again, and the next run stands on the new layer', async () => {
  const directory = repository({ 'agentpod.toml': toml('date +%s%N > ~/built') })
  const built = async (): Promise<string> =>
    (await call(directory, 'run', '--', 'sh', '-c', 'cat ~/built')).stdout
  const first = await built()
  assert.match(first, /^\d+\n$/)
  const again = await call(directory, 'build', '--again', 'setup')
  assert.equal(again.code, 0, again.stderr)
  assert.notEqual(await built(), first)
  await call(directory, 'run', '--keep', '--name', 'stands', '--', 'true')
  const held = await call(directory, 'build', '--again', 'setup')
  assert.match(held.stderr, /is in use: the sandbox stands\nhint: `agentpod destroy stands` first/)
  await call(directory, 'destroy', 'stands')
})

test('E4: a step that fails shows its command and where its log is, in every command that builds', async () => {
  const directory = repository({ 'agentpod.toml': toml('echo the last words; exit 3', 'dev = "true"\n') })
  for (const words of [['test'], ['run', '--', 'true'], ['dev'], ['build']]) {
    const { stderr } = await call(directory, ...words)
    assert.match(stderr, /the last words\n\s+command: .*exit 3/, words.join(' '))
    assert.match(stderr, /full output: \S+setup\.log/, words.join(' '))
  }
})

test('E5: a lockfile that does not fit is named, with what to run', async () => {
  const directory = project({
    'package.json': '{"name":"a","version":"1.0.0","dependencies":{"ms":"2.1.3"}}',
    'package-lock.json':
      '{"name":"a","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"a","version":"1.0.0"}}}',
  })
  const { code, stderr } = await call(directory, 'test')
  assert.notEqual(code, 0)
  assert.match(stderr, /Missing: ms@2\.1\.3 from lock file/)
  assert.match(stderr, /run `npm install` here and commit package-lock\.json/)
})

test('E6: a host that was refused is named with the option that allows it', async () => {
  const directory = repository({ 'agentpod.toml': toml('true') })
  const fetched = ['--', 'curl', '-fsS', '-m', '10', 'http://refused.example/']
  const { stderr } = await call(directory, 'run', ...fetched)
  assert.match(
    stderr,
    /✗ refused: refused\.example \(no rule allows it\)\n\s+to allow it: --allow refused\.example/,
  )
})

test('E7: the user, the password and the database that compose names are there', {
  skip: NOT_LONG,
}, async () => {
  const directory = repository({
    'agentpod.toml': '[environment]\nbase = "host"\n',
    'compose.yaml': `services:
  db:
    image: postgres:15
    environment:
      POSTGRES_USER: shop
      POSTGRES_PASSWORD: \${DB_PASSWORD:-s3cret}
      POSTGRES_DB: shop_dev
`,
    '.env.example': 'ORDERS_URL=postgresql://shop:s3cret@db:5432/shop_dev\n',
  })
  const asked = 'select current_user, current_database()'
  const own = ['psql', 'postgres://shop:s3cret@127.0.0.1:5432/shop_dev', '-Atc', asked]
  const first = await call(directory, 'run', '--', ...own)
  assert.equal(first.stdout, 'shop|shop_dev\n', first.stderr)
  const told = await call(
    directory,
    'run',
    '--',
    'sh',
    '-c',
    `psql "$ORDERS_URL" -Atc '${asked}'; psql "$DATABASE_URL" -Atc '${asked}'; psql -Atc '${asked}'`,
  )
  assert.equal(told.stdout, 'shop|shop_dev\n'.repeat(3), told.stderr)
})

test('E8: dev brings out a port that no file names, and says so', async () => {
  const directory = repository({
    'agentpod.toml': `[environment]
base = "host"
[lifecycle]
dev = "python3 -m http.server $((18080 + 1))"
`,
    'inside.txt': 'from inside',
  })
  const child = world.start(['dev', '--name', 'served'], { cwd: directory })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (text += data))
  const ended = new Promise((resolve) => child.once('close', resolve))
  try {
    await until('the port is said', () => /port 18081 listens inside/.test(text), 120_000)
    const [, address = ''] = /(http:\/\/127\.0\.0\.1:\d+) {2}port 18081/.exec(text) ?? []
    assert.equal(await (await fetch(`${address}/inside.txt`)).text(), 'from inside')
  } finally {
    child.kill('SIGINT')
    await ended
  }
})

test('E14: a step that hangs is reported while it does, and ends at its own time limit', {
  skip: NOT_LONG,
}, async () => {
  const directory = project({
    'agentpod.toml': toml('echo waiting for nobody; sleep 600', '[resources]\nstep_timeout = "33s"\n'),
  })
  const { code, stderr } = await call(directory, 'test')
  assert.notEqual(code, 0)
  assert.match(stderr, /still running after 3\d seconds; last line: waiting for nobody/)
  assert.match(stderr, /command: .*sleep 600/)
  assert.match(stderr, /full output: \S+setup\.log/)
  assert.match(stderr, /the step "dependencies, by your command" failed: it did not finish within 33 seconds/)
  assert.match(stderr, /step_timeout = "2h" in agentpod\.toml/)
})

test('E6: a host that a build step was refused is named with what allows it', async () => {
  const directory = project({ 'agentpod.toml': toml('curl -fsS -m 10 http://refused.example/') })
  const { code, stderr } = await call(directory, 'test')
  assert.notEqual(code, 0)
  assert.match(stderr, /✗ refused: refused\.example:80 \(no rule allows it while the environment is built\)/)
  assert.match(stderr, /agentpod preset set NAME HOST/)
})

test('E6: words for a test command of several lines are refused, and one command takes them', async () => {
  const lines = project({
    'agentpod.toml': '[environment]\nbase = "host"\n[lifecycle]\ntest = ["echo one", "echo two"]\n',
  })
  const refused = await call(lines, 'test', '--', 'word')
  assert.equal(refused.code, 2, refused.stderr)
  assert.match(refused.stderr, /arguments cannot be passed to a test command of several lines/)
  const one = project({
    'agentpod.toml': '[environment]\nbase = "host"\n[lifecycle]\ntest = "echo got"\n',
  })
  assert.equal((await call(one, 'test', '--', 'word')).stdout, 'got word\n')
})

test('E2: root access that one run was granted is not granted to the next', async () => {
  const directory = repository({ 'a.txt': 'a\n' })
  const privileges = ['--', 'sed', '-n', 's/^NoNewPrivs:[^0-9]*//p', '/proc/self/status']
  assert.equal((await call(directory, 'run', '--sudo', '-e', 'A=1', ...privileges)).stdout, '0\n')
  assert.equal((await call(directory, 'run', ...privileges)).stdout, '1\n')
  assert.equal((await call(directory, 'run', '--', 'sh', '-c', 'echo "A=$A"')).stdout, 'A=\n')
})
