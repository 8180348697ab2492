import assert from 'node:assert/strict'
import { curl, fails, inside, sleep, until } from './expect.mjs'

const SCHEME = process.env.PREVIEW_SCHEME ?? 'http'
const mark = () => `mark-${process.pid}-${performance.now()}`
const isPaused = async (sandbox) => (await sandbox.getInfo()).state === 'paused'
const runs = async (sandbox, pid) => (await sandbox.commands.list()).some((one) => one.pid === pid)

async function every(paginator) {
  const items = []
  while (paginator.hasNext) items.push(...(await paginator.nextItems()))
  return items
}

export const cases = [
  [
    'sandbox.pause: memory and files are kept',
    async ({ create, Sandbox }) => {
      const sandbox = await create({ timeoutMs: 120_000 })
      await sandbox.files.write('kept.txt', 'kept')
      const { pid } = await sandbox.commands.run('sleep 300', { background: true })
      assert.equal(await sandbox.pause(), true)
      assert.equal(await sandbox.pause(), false)
      assert.equal(await sandbox.isRunning(), false)
      assert.equal((await sandbox.getInfo()).state, 'paused')
      const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 })
      assert.equal(again.sandboxId, sandbox.sandboxId)
      assert.equal(await again.isRunning(), true)
      assert.equal(await again.files.read('kept.txt'), 'kept')
      assert.equal(await runs(again, pid), true)
      const left = ((await again.getInfo()).endAt.getTime() - Date.now()) / 1000
      assert.ok(left > 40 && left <= 61, `its time counts from now, ${left} s`)
    },
  ],
  [
    'sandbox.pause: keepMemory false',
    async ({ create }) => {
      const sandbox = await create()
      await sandbox.files.write('kept.txt', 'kept')
      const { pid } = await sandbox.commands.run('sleep 300', { background: true })
      assert.equal(await sandbox.pause({ keepMemory: false }), true)
      assert.equal(await sandbox.pause(), false)
      assert.equal(await sandbox.isRunning(), false)
      await sandbox.connect()
      assert.equal(await sandbox.files.read('kept.txt'), 'kept')
      assert.equal(await runs(sandbox, pid), false)
    },
  ],
  [
    'sandbox.pause: a stream goes on after it',
    async ({ create }) => {
      const sandbox = await create()
      let heard = 0
      const command = await sandbox.commands.run('while :; do echo tick; sleep 0.1; done', {
        background: true,
        onStdout: () => heard++,
      })
      await until('it is heard', () => heard > 3)
      await sandbox.pause()
      await sleep(300)
      const before = heard
      await sleep(500)
      assert.equal(heard, before, 'nothing is heard while it is paused')
      await sandbox.connect()
      await until('it is heard again', () => heard > before + 3)
      await command.kill()
    },
  ],
  [
    'sandbox.pause: nothing gets in meanwhile',
    async ({ create, Sandbox, NotFoundError, TimeoutError }) => {
      const sandbox = await create()
      await sandbox.pause()
      await fails(sandbox.commands.run('true'), NotFoundError)
      await fails(sandbox.files.read('x'), TimeoutError)
      const gone = await curl(`${SCHEME}://${sandbox.getHost(8000)}/`)
      assert.equal(gone.status, 502)
      assert.match(gone.body, /not found/)
      assert.equal(await isPaused(sandbox), true)
      await Sandbox.connect(sandbox.sandboxId)
      assert.equal(await inside(sandbox, 'echo back'), 'back')
    },
  ],
  [
    'Sandbox.connect: onResume reboot',
    async ({ create }) => {
      const sandbox = await create()
      await sandbox.files.write('kept.txt', 'kept')
      const { pid } = await sandbox.commands.run('sleep 300', { background: true })
      await sandbox.pause()
      await sandbox.connect({ onResume: 'reboot' })
      assert.equal(await sandbox.files.read('kept.txt'), 'kept')
      assert.equal(await runs(sandbox, pid), false)
    },
    ({ Sandbox }) => String(Sandbox.connectSandbox).includes('onResume'),
  ],
  [
    'Sandbox.create: lifecycle onTimeout pause',
    async ({ create }) => {
      const sandbox = await create({ timeoutMs: 2_000, lifecycle: { onTimeout: 'pause' } })
      assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
      const { pid } = await sandbox.commands.run('sleep 300', { background: true })
      await until('it is paused', () => isPaused(sandbox), 15_000)
      assert.equal(await sandbox.isRunning(), false)
      await sandbox.connect()
      assert.equal(await runs(sandbox, pid), true)
    },
  ],
  [
    'Sandbox.create: lifecycle onTimeout pause without memory',
    async ({ create }) => {
      const onTimeout = { action: 'pause', keepMemory: false }
      const sandbox = await create({ timeoutMs: 2_000, lifecycle: { onTimeout } })
      await sandbox.files.write('kept.txt', 'kept')
      await until('it is paused', () => isPaused(sandbox), 15_000)
      await sandbox.connect()
      assert.equal(await sandbox.files.read('kept.txt'), 'kept')
    },
  ],
  [
    'Sandbox.create: lifecycle autoResume',
    async ({ create }) => {
      const sandbox = await create({
        timeoutMs: 10_000,
        lifecycle: { onTimeout: 'pause', autoResume: true },
      })
      assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
      const url = `${SCHEME}://${sandbox.getHost(8000)}/page.txt`
      await sandbox.files.write('page.txt', 'from inside')
      await sandbox.commands.run('python3 -m http.server 8000', { background: true })
      await until('the page is served', async () => (await curl(url)).status === 200)
      await sandbox.pause()
      assert.equal(await inside(sandbox, 'cat page.txt'), 'from inside', 'a command wakes it')
      await sandbox.pause()
      assert.equal(await sandbox.files.read('page.txt'), 'from inside', 'a file wakes it')
      await sandbox.pause()
      assert.equal((await curl(url)).body, 'from inside', 'traffic wakes it')
      await sandbox.pause()
      assert.equal(await sandbox.isRunning(), false, 'the question does not')
      assert.equal(await isPaused(sandbox), true)
    },
  ],
  [
    'Sandbox.list: paused ones',
    async ({ create, Sandbox }) => {
      const metadata = { mark: mark() }
      const sandbox = await create({ metadata })
      await sandbox.pause()
      const states = async (state) =>
        (await every(Sandbox.list({ query: { metadata, ...(state && { state }) } }))).map((one) => one.state)
      assert.deepEqual(await states(['paused']), ['paused'])
      assert.deepEqual(await states(['running']), [])
      assert.deepEqual(await states(), ['paused'])
      await sandbox.connect()
      assert.deepEqual(await states(['running']), ['running'])
    },
  ],
  [
    'sandbox.kill: a paused one',
    async ({ create, Sandbox, NotFoundError }) => {
      for (const keepMemory of [true, false]) {
        const sandbox = await create()
        await sandbox.pause({ keepMemory })
        assert.equal(await sandbox.kill(), true)
        assert.equal(await sandbox.kill(), false)
        await fails(Sandbox.connect(sandbox.sandboxId), NotFoundError)
        await fails(sandbox.pause(), NotFoundError)
      }
    },
  ],
  [
    'sandbox.createSnapshot, Sandbox.create from it',
    async ({ create, Sandbox, SandboxError }) => {
      const sandbox = await create()
      await sandbox.files.write('state.txt', 'one')
      const snapshot = await sandbox.createSnapshot()
      assert.equal(await sandbox.isRunning(), true, 'it runs on')
      await sandbox.files.write('state.txt', 'two')
      await sandbox.kill()
      const copies = await Promise.all([create(snapshot.snapshotId), create(snapshot.snapshotId)])
      for (const copy of copies) assert.equal(await copy.files.read('state.txt'), 'one')
      assert.equal(await inside(copies[0], 'id -un; sudo id -un'), 'user\nroot')
      assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
      assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
      assert.equal(await copies[1].files.read('state.txt'), 'one', 'those made from it live on')
      await fails(Sandbox.create(snapshot.snapshotId), SandboxError, /not found/)
    },
  ],
  [
    'sandbox.createSnapshot: by name',
    async ({ create, Sandbox }) => {
      const sandbox = await create()
      const name = `named-${process.pid}-${Math.round(performance.now())}`
      await sandbox.files.write('state.txt', 'one')
      const snapshot = await sandbox.createSnapshot({ name })
      assert.deepEqual(snapshot.names, [name])
      assert.equal(await (await create(name)).files.read('state.txt'), 'one')
      await Sandbox.deleteSnapshot(snapshot.snapshotId)
    },
  ],
  [
    'Sandbox.listSnapshots',
    async ({ create, Sandbox }) => {
      const sandbox = await create()
      const taken = [await sandbox.createSnapshot(), await sandbox.createSnapshot()]
      const ids = async (options) => (await every(options)).map((one) => one.snapshotId)
      const expected = new Set(taken.map(({ snapshotId }) => snapshotId))
      assert.deepEqual(new Set(await ids(sandbox.listSnapshots())), expected)
      assert.deepEqual(new Set(await ids(sandbox.listSnapshots({ limit: 1 }))), expected)
      const all = await ids(Sandbox.listSnapshots())
      for (const id of expected) assert.ok(all.includes(id))
      for (const id of expected) await Sandbox.deleteSnapshot(id)
      assert.deepEqual(await ids(sandbox.listSnapshots()), [])
    },
  ],
  [
    'sandbox.fork',
    async ({ create, made }) => {
      const sandbox = await create({ metadata: { team: 'web' } })
      await sandbox.files.write('state.txt', 'one')
      const forks = await sandbox.fork({ count: 2, timeoutMs: 60_000 })
      made.push(...forks)
      assert.equal(new Set([sandbox, ...forks].map(({ sandboxId }) => sandboxId)).size, 3)
      await sandbox.files.write('state.txt', 'two')
      for (const fork of forks) {
        assert.equal(await fork.files.read('state.txt'), 'one')
        const left = ((await fork.getInfo()).endAt.getTime() - Date.now()) / 1000
        assert.ok(left > 40 && left <= 61, `${left} s`)
        await fork.files.write('state.txt', 'own')
      }
      assert.equal(await sandbox.files.read('state.txt'), 'two')
      assert.equal(await sandbox.isRunning(), true)
    },
  ],
  [
    'error: pausing and forking what is not there',
    async ({ Sandbox, NotFoundError, shared, otherKey: apiKey }) => {
      for (const [id, options] of [
        ['nosuchsandbox000', {}],
        [shared.sandboxId, { apiKey }],
      ]) {
        await fails(Sandbox.pause(id, options), NotFoundError)
        await fails(Sandbox.createSnapshot(id, options), NotFoundError)
        await fails(Sandbox.fork(id, options), NotFoundError)
      }
      assert.equal(await shared.isRunning(), true)
    },
  ],
]
