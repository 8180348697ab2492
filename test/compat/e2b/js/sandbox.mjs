import assert from 'node:assert/strict'
import { curl, fails, inside, sleep, until } from './expect.mjs'

const secondsLeft = (info) => (info.endAt.getTime() - Date.now()) / 1000
/** What a server with a certificate is asked by. */
const SCHEME = process.env.PREVIEW_SCHEME ?? 'http'
const mark = () => `mark-${process.pid}-${performance.now()}`

async function all(paginator) {
  const pages = []
  while (paginator.hasNext) pages.push(await paginator.nextItems())
  return pages
}

export const cases = [
  [
    'Sandbox.create',
    async ({ create }) => {
      const sandbox = await create()
      assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
      assert.equal(await inside(sandbox, 'id -un; pwd; sudo id -un'), 'user\n/home/user\nroot')
      assert.match(
        await inside(sandbox, 'git --version; curl --version; python3 --version'),
        /git.*curl.*Python 3/s,
      )
      const left = secondsLeft(await sandbox.getInfo())
      assert.ok(left > 280 && left <= 301, `five minutes by default, not ${left} s`)
    },
  ],
  [
    'Sandbox.create: template by name',
    async ({ create }) => {
      const sandbox = await create('base', { timeoutMs: 60_000 })
      assert.equal((await sandbox.getInfo()).templateId, 'base')
    },
  ],
  [
    'Sandbox.create: timeoutMs ends it',
    async ({ create }) => {
      const sandbox = await create({ timeoutMs: 2_000 })
      assert.equal(await sandbox.isRunning(), true)
      await until('the sandbox ends', async () => !(await sandbox.isRunning()), 15_000)
    },
  ],
  [
    'Sandbox.create: metadata',
    async ({ create, Sandbox }) => {
      const metadata = { mark: mark(), 'odd key/&=%+': 'odd value &=%+ ü\n' }
      const sandbox = await create({ metadata })
      assert.deepEqual((await sandbox.getInfo()).metadata, metadata)
      const [page] = await all(Sandbox.list({ query: { metadata } }))
      assert.deepEqual(
        page.map(({ sandboxId }) => sandboxId),
        [sandbox.sandboxId],
      )
    },
  ],
  [
    'Sandbox.create: envs',
    async ({ create }) => {
      const sandbox = await create({ envs: { GREETING: "it's $HOME" } })
      assert.equal(await inside(sandbox, 'echo "$GREETING"'), "it's $HOME")
      assert.equal(await inside(sandbox, 'echo "$GREETING"', { envs: { GREETING: 'own' } }), 'own')
    },
  ],
  [
    'Sandbox.connect',
    async ({ create, Sandbox }) => {
      const sandbox = await create()
      await sandbox.files.write('kept.txt', 'kept')
      const again = await Sandbox.connect(sandbox.sandboxId)
      assert.equal(again.sandboxId, sandbox.sandboxId)
      assert.equal(await again.files.read('kept.txt'), 'kept')
      assert.equal(again.getHost(80), sandbox.getHost(80))
    },
  ],
  [
    'Sandbox.connect: only ever extends',
    async ({ create, Sandbox }) => {
      const { sandboxId } = await create({ timeoutMs: 600_000 })
      const sandbox = await Sandbox.connect(sandboxId, { timeoutMs: 60_000 })
      assert.ok(secondsLeft(await sandbox.getInfo()) > 500, 'a shorter time is passed over')
      await Sandbox.connect(sandboxId, { timeoutMs: 1_200_000 })
      assert.ok(secondsLeft(await sandbox.getInfo()) > 1100, 'a longer time counts')
    },
  ],
  [
    'Sandbox.list: pages',
    async ({ create, Sandbox }) => {
      const metadata = { mark: mark() }
      const made = await Promise.all([1, 2, 3].map(() => create({ metadata })))
      const pages = await all(Sandbox.list({ query: { metadata }, limit: 2 }))
      assert.deepEqual(
        pages.map((page) => page.length),
        [2, 1],
      )
      const seen = pages.flat()
      assert.deepEqual(
        new Set(seen.map(({ sandboxId }) => sandboxId)),
        new Set(made.map(({ sandboxId }) => sandboxId)),
      )
      const times = seen.map(({ startedAt }) => startedAt.getTime())
      assert.deepEqual(
        times,
        times.toSorted((a, b) => b - a),
        'newest first',
      )
    },
  ],
  [
    'Sandbox.list: metadata and state',
    async ({ create, Sandbox }) => {
      const metadata = { mark: mark() }
      const sandbox = await create({ metadata })
      const ids = async (query) =>
        (await all(Sandbox.list({ query }))).flat().map(({ sandboxId }) => sandboxId)
      assert.deepEqual(await ids({ metadata, state: ['running'] }), [sandbox.sandboxId])
      assert.deepEqual(await ids({ metadata, state: ['running', 'paused'] }), [sandbox.sandboxId])
      assert.deepEqual(await ids({ metadata, state: ['paused'] }), [])
      assert.deepEqual(await ids({ metadata: { ...metadata, more: 'x' } }), [])
      await sandbox.kill()
      assert.deepEqual(await ids({ metadata }), [])
    },
  ],
  [
    'Sandbox.getInfo',
    async ({ create, Sandbox }) => {
      const sandbox = await create({ timeoutMs: 120_000 })
      const info = await sandbox.getInfo()
      assert.equal(info.sandboxId, sandbox.sandboxId)
      assert.equal(info.state, 'running')
      assert.equal(info.cpuCount, Number(2))
      assert.equal(info.memoryMB, 4096)
      assert.ok(Math.abs(info.startedAt.getTime() - Date.now()) < 60_000)
      assert.deepEqual(await Sandbox.getInfo(sandbox.sandboxId), info)
    },
  ],
  [
    'sandbox.setTimeout: longer and shorter',
    async ({ create }) => {
      const sandbox = await create({ timeoutMs: 60_000 })
      await sandbox.setTimeout(600_000)
      assert.ok(secondsLeft(await sandbox.getInfo()) > 500)
      await sandbox.setTimeout(1_000)
      await until('the sandbox ends', async () => !(await sandbox.isRunning()), 15_000)
    },
  ],
  [
    'sandbox.kill',
    async ({ create, Sandbox }) => {
      const sandbox = await create()
      assert.equal(await sandbox.kill(), true)
      assert.equal(await sandbox.isRunning(), false)
      assert.equal(await sandbox.kill(), false)
      assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
    },
  ],
  [
    'sandbox.kill: cuts what runs',
    async ({ create, TimeoutError, NotFoundError }) => {
      const sandbox = await create()
      let started
      const output = new Promise((resolve) => {
        started = resolve
      })
      const running = fails(sandbox.commands.run('echo up; sleep 60', { onStdout: started }), TimeoutError)
      await output
      await sandbox.kill()
      await running
      await fails(sandbox.commands.run('true'), NotFoundError)
      await fails(sandbox.files.read('x'), TimeoutError)
    },
  ],
  [
    'sandbox.isRunning',
    async ({ create }) => {
      const sandbox = await create()
      assert.equal(await sandbox.isRunning(), true)
      await sandbox.kill()
      assert.equal(await sandbox.isRunning(), false)
    },
  ],
  [
    'sandbox.getMetrics',
    async ({ create }) => {
      const sandbox = await create()
      const busy = await sandbox.commands.run('while :; do :; done', { background: true })
      // On a busy machine the loop takes a while to begin.
      let metric
      for (let tries = 0; tries < 30 && !(metric?.cpuUsedPct > 2); tries++) {
        await sleep(300)
        ;[metric] = await sandbox.getMetrics()
      }
      await busy.kill()
      assert.ok(metric.cpuUsedPct > 2 && metric.cpuUsedPct <= 100, `a busy processor: ${metric.cpuUsedPct}`)
      assert.equal(metric.cpuCount, 2)
      assert.ok(metric.memUsed > 0 && metric.memUsed < metric.memTotal)
      assert.ok(Math.abs(metric.timestamp.getTime() - Date.now()) < 60_000)
      assert.deepEqual(await sandbox.getMetrics({ start: new Date(0), end: new Date(1000) }), [])
    },
  ],
  [
    'sandbox.getHost',
    async ({ create }) => {
      const sandbox = await create()
      const url = `${SCHEME}://${sandbox.getHost(8000)}/page.txt`
      const closed = await curl(url)
      assert.equal(closed.status, 502)
      assert.match(closed.body, /port is not open/)
      await sandbox.files.write('page.txt', 'from inside')
      await sandbox.commands.run('python3 -m http.server 8000', { background: true })
      await until('the page is served', async () => (await curl(url)).status === 200)
      assert.equal((await curl(url)).body, 'from inside')
      await sandbox.kill()
      const gone = await curl(url)
      assert.equal(gone.status, 502)
      assert.match(gone.body, /not found/)
    },
  ],
  [
    'sandbox.getHost: allowPublicTraffic false',
    async ({ create }) => {
      const sandbox = await create({ network: { allowPublicTraffic: false } })
      const url = `${SCHEME}://${sandbox.getHost(8000)}/`
      await sandbox.commands.run('python3 -m http.server 8000', { background: true })
      const header = ['-H', `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`]
      await until('the page is served', async () => (await curl(url, ...header)).status === 200)
      assert.equal((await curl(url)).status, 403)
      assert.equal((await curl(url, '-H', 'e2b-traffic-access-token: wrong')).status, 403)
    },
  ],
  [
    'sandbox.downloadUrl',
    async ({ shared }) => {
      await shared.files.write('down load.txt', 'downloaded')
      const url = await shared.downloadUrl('down load.txt')
      assert.equal(await (await fetch(url)).text(), 'downloaded')
      const forged = new URL(url)
      forged.searchParams.set('path', '/etc/passwd')
      assert.equal((await fetch(forged)).status, 401)
    },
  ],
  [
    'sandbox.downloadUrl: expires',
    async ({ shared }) => {
      await shared.files.write('brief.txt', 'brief')
      const url = await shared.downloadUrl('brief.txt', { useSignatureExpiration: 1 })
      assert.equal(await (await fetch(url)).text(), 'brief')
      const later = new URL(url)
      later.searchParams.set('signature_expiration', String(Math.floor(Date.now() / 1000) + 3600))
      assert.equal((await fetch(later)).status, 401)
      await sleep(2100)
      assert.equal((await fetch(url)).status, 401)
    },
  ],
  [
    'sandbox.uploadUrl',
    async ({ shared }) => {
      const url = await shared.uploadUrl('up.txt')
      const form = new FormData()
      form.append('file', new Blob(['uploaded']), 'up.txt')
      assert.equal((await fetch(url, { method: 'POST', body: form })).status, 200)
      assert.equal(await shared.files.read('up.txt'), 'uploaded')
      assert.equal((await fetch(url)).status, 401, 'it opens nothing for reading')
    },
  ],
]
