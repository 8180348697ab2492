/** What outside verification found in daily use: the SDK, the command line, an older server. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { ROOT, until, World } from '../support/world.ts'

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
    assert.match(stderr, new RegExp(`${option} 100 has no unit\nhint: say 100`))
  }
  assert.match((await world.cli(['rm', 'box'])).stderr, /did you mean `agentpod destroy`/)
})
