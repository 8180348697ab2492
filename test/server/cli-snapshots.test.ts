// Pause, snapshots and forks on the command line, against a server on a fake provider.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { getRequestListener } from '@hono/node-server'
import { localDoor } from '../../src/api/door/local-door.ts'
import { listen } from '../../src/api/http/listen.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { closeServer } from '../../src/main/listeners.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { Front } from '../support/front.ts'
import { ROOT } from '../support/world.ts'

let front: Front
let home = ''
let server: Server
before(async () => {
  home = mkdtempSync(join(tmpdir(), 'agentpod-cli-'))
  mkdirSync(join(home, 'run'))
  mkdirSync(join(home, 'archives'))
  front = await Front.open({ tmpDir: join(home, 'archives') })
  server = await listen({
    door: localDoor(front.engine, getRequestListener(front.app.fetch), silentLog),
    address: { socket: join(home, 'run', 'api.sock') },
    onActivity: () => undefined,
  })
})
after(async () => {
  await closeServer(server)
  await front[Symbol.asyncDispose]()
  rmSync(home, { recursive: true })
})
beforeEach(async () => {
  front.provider.heal()
  await Promise.all(
    front.engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .map(({ id }) => front.engine.sandboxes.destroy(id, LOCAL)),
  )
  for (const { id } of front.engine.snapshots.list(LOCAL)) await front.engine.snapshots.remove(id, LOCAL)
})

interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

async function cli(line: string, input?: Buffer): Promise<Result & { bytes: Buffer }> {
  const args = ['--disable-warning=ExperimentalWarning', '--', join(ROOT, 'src', 'cli', 'main.ts')]
  const child = spawn(process.execPath, [...args, ...line.split(' ')], {
    cwd: home,
    env: { ...process.env, NO_COLOR: '1', AGENTPOD_HOME: home },
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(input ?? '')
  const collect = async (stream: AsyncIterable<Buffer>): Promise<Buffer> => {
    const chunks: Buffer[] = []
    for await (const chunk of stream) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  const [bytes, stderr, code] = await Promise.all([
    collect(child.stdout),
    collect(child.stderr),
    new Promise<number>((resolve) => child.once('close', (exit) => resolve(exit ?? -1))),
  ])
  return { code, bytes, stdout: bytes.toString(), stderr: stderr.toString() }
}

async function ok(line: string, input?: Buffer): Promise<string> {
  const { code, stdout, stderr } = await cli(line, input)
  assert.equal(code, 0, `agentpod ${line}: ${stderr}`)
  return stdout.trimEnd()
}
const json = async <T = Record<string, unknown>>(line: string): Promise<T> => JSON.parse(await ok(line)) as T

test('pause, resume, stop and start take names, and print the new state', async () => {
  await front.engine.sandboxes.create({ name: 'one' }, LOCAL)
  await front.engine.sandboxes.create({ name: 'two' }, LOCAL)
  assert.equal(await ok('pause one two'), 'one is paused\ntwo is paused')
  assert.equal(await ok('resume one'), 'one is running')
  assert.equal(await ok('stop one'), 'one is stopped')
  const [started] = await json<{ state: string; deadlineAt: string }[]>('start one --timeout 10m --json')
  assert.equal(started?.state, 'running')
  assert.equal(Date.parse(started?.deadlineAt ?? '') - front.clock.now(), 600_000)
  const table = await ok('ls')
  assert.match(table, /one +running/)
  assert.match(table, /two +paused +fake +container +host +\S+ +\S.* kept; a call resumes it /)
})

test('a verb that the state does not allow has a hint', async () => {
  await front.engine.sandboxes.create({ name: 'one' }, LOCAL)
  await ok('pause one')
  const { code, stderr } = await cli('extend one 1m')
  assert.equal(code, 5)
  assert.match(stderr, /is paused/)
  assert.match(stderr, /hint: `agentpod resume`/)
  assert.equal((await cli('pause nobody')).code, 4)
  assert.equal((await cli('pause')).code, 2)
})

test('create takes its end, its disk limit, and the snapshot it begins with', async () => {
  await front.engine.sandboxes.create({ name: 'source' }, LOCAL)
  await ok('snapshot source --name golden')
  const made = await json<{ lifetime: object; resources: { diskMib: number }; snapshotId: string }>(
    'create --when-over stop --no-auto-resume --disk 2g --from golden --json',
  )
  assert.deepEqual(made.lifetime, { ttlMs: 86_400_000, idleMs: 0, whenOver: 'stop', autoResume: false })
  assert.equal(made.resources.diskMib, 2048)
  assert.equal(made.snapshotId, front.engine.snapshots.get('golden', LOCAL).id)
  const wrong = await cli('create --when-over stopp')
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /did you mean stop\?/)
  const unknown = await cli('create --from nothing')
  assert.equal(unknown.code, 4)
  assert.match(unknown.stderr, /agentpod snapshot ls/)
})

describe('snapshot', () => {
  test('a snapshot is taken in the long and the short form, listed and removed', async () => {
    const { id } = await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    const short = await ok('snapshot box')
    assert.match(short, /^snap[a-z0-9]{16}$/)
    const long = await json<{ id: string; parentId: string }>(
      'snapshot create box --name golden --label team=web --json',
    )
    assert.equal(long.parentId, short)
    const list = await ok('snapshot ls')
    assert.match(list, /^ID +NAME +SANDBOX +KEEPS +SIZE +AGE +LABELS\n/)
    assert.match(list, new RegExp(`${long.id} +golden +${id} +files +0 B +\\S+ +team=web`))
    assert.equal((await json<unknown[]>('snapshot ls --json')).length, 2)
    assert.equal((await json<unknown[]>('snapshot ls --label team=web --json')).length, 1)
    assert.equal((await json<unknown[]>('snapshot ls --sandbox box --json')).length, 2)
    assert.equal(await ok('snapshot rm golden'), 'golden')
    assert.deepEqual(await json<unknown>(`snapshot rm ${short} --json`), [short])
    const { stderr } = await cli('snapshot ls')
    assert.match(stderr, /no snapshots/)
  })

  test('ls --tree draws the ancestry of snapshots, and shows removed ones', async () => {
    await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    const take = async (name: string, box = 'box'): Promise<string> => {
      await front.clock.advance(1000)
      return ok(`snapshot ${box} --name ${name}`)
    }
    const root = await take('root')
    await ok('restore root --name other')
    const [left, leaf] = [await take('left'), await take('leaf')]
    const right = await take('right', 'other')
    const lines = (await ok('snapshot ls --tree')).split('\n').slice(1)
    assert.deepEqual(
      lines.map((line) => line.slice(0, 27).trimEnd()),
      [root, `├─ ${left}`, `│  └─ ${leaf}`, `└─ ${right}`].map((line) => line.slice(0, 27)),
    )
    await ok('snapshot rm left')
    assert.match(
      await ok('snapshot ls --tree'),
      new RegExp(`\n${leaf} +leaf .*\\(from ${left}, which was removed\\)`),
    )
  })

  test('a snapshot is exported to a file and through a pipe', async () => {
    const { id } = await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    front.provider.inside(id).files.set('/a', Buffer.alloc(500_000, 'x'))
    await ok('snapshot box --name golden')
    assert.match(await ok('snapshot export golden golden.pod'), /^golden\.pod: \d+ KiB$/)
    const file = readFileSync(join(home, 'golden.pod'))
    const piped = await cli('snapshot export golden -')
    assert.equal(piped.code, 0)
    assert.equal(piped.bytes.length, file.length)
    assert.ok(piped.bytes.equals(file))
    await ok('snapshot rm golden')
    const first = await ok('snapshot import golden.pod --name first')
    assert.equal(front.engine.snapshots.get('first', LOCAL).id, first)
    await ok('snapshot import - --name second', file)
    const copy = await ok('restore second --name copy')
    assert.equal(
      front.provider.inside(front.engine.sandboxes.get(copy, LOCAL).id).files.get('/a')?.length,
      500_000,
    )
    assert.match(await ok('snapshot ls'), /first +imported/)
  })

  test('a snapshot that cannot be exported or imported leaves no file and says why', async () => {
    await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    await ok('snapshot box --name golden')
    const before = readdirSync(home)
    for (const [line, code, says] of [
      ['snapshot export nothing out.pod', 4, /there is no snapshot nothing/],
      ['snapshot export golden archives', 2, /is a directory[\s\S]*archives\/golden\.pod/],
      ['snapshot export golden none/out.pod', 2, /cannot write none\/out\.pod: no such file or directory/],
      ['snapshot export golden - --json', 2, /--json/],
      ['snapshot export golden', 2, /missing/],
      ['snapshot import none.pod', 2, /cannot read none\.pod: no such file or directory/],
      ['snapshot import golden.pod extra', 2, /unexpected "extra"/],
      ['snapshot exprot golden out.pod', 2, /did you mean `agentpod snapshot export`/],
      ['snapshot', 2, /missing/],
      ['snapshot rm', 2, /name the snapshots/],
      ['snapshot create nobody', 4, /there is no sandbox nobody/],
    ] as const) {
      const result = await cli(line)
      assert.equal(result.code, code, `${line}: ${result.stderr}`)
      assert.match(result.stderr, says, line)
    }
    writeFileSync(join(home, 'bad.pod'), 'no archive')
    const bad = await cli('snapshot import bad.pod')
    assert.equal(bad.code, 2)
    assert.match(bad.stderr, /not a snapshot archive/)
    rmSync(join(home, 'bad.pod'))
    assert.deepEqual(readdirSync(home), before)
  })
})

describe('fork', () => {
  test('fork makes copies and prints their ids', async () => {
    await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    const ids = (await ok('fork box --count 3 --name try --timeout 5m --label a=b')).split('\n')
    assert.deepEqual(ids.map((id) => front.engine.sandboxes.get(id, LOCAL).name).sort(), [
      'try-1',
      'try-2',
      'try-3',
    ])
    assert.deepEqual(front.engine.sandboxes.get(ids[0] ?? '', LOCAL).labels, { a: 'b' })
    assert.equal(front.engine.sandboxes.get(ids[0] ?? '', LOCAL).spec.lifetime.ttlMs, 300_000)
    const [one] = await json<{ forkedFrom: string }[]>('fork box --json')
    assert.equal(one?.forkedFrom, front.engine.sandboxes.get('box', LOCAL).id)
  })

  test('fork prints the ids that were made when some forks fail', async () => {
    await front.engine.sandboxes.create({ name: 'box' }, LOCAL)
    front.provider.fail('create', { code: 'resource_exhausted', times: 1 })
    const { code, stdout, stderr } = await cli('fork box -n 3')
    assert.equal(code, 7)
    assert.equal(stdout.trimEnd().split('\n').length, 2)
    assert.match(stderr, /1 of 3 forks failed/)
    front.provider.fail('create', { code: 'resource_exhausted', times: 1 })
    const failed = await cli('fork box -n 2 --json')
    const { error } = JSON.parse(failed.stderr) as { error: { details: { made: string[] } } }
    assert.equal(error.details.made.length, 1)
    assert.equal((await cli('fork box --count many')).code, 2)
  })
})

test('every new command has help with examples, and completions include its words', async () => {
  for (const name of ['pause', 'resume', 'stop', 'start', 'snapshot', 'restore', 'fork']) {
    const help = await ok(`${name} --help`)
    assert.match(help, new RegExp(`^usage: agentpod ${name}`, 'm'))
    assert.match(help, /examples:\n {2}agentpod/)
  }
  for (const shell of ['bash', 'zsh', 'fish']) {
    const script = await ok(`completion ${shell}`)
    for (const word of ['pause', 'snapshot', 'restore', 'fork', 'create ls rm export import'])
      assert.ok(script.includes(word), `${shell}: ${word}`)
  }
})
