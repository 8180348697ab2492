/**
 * The memory of sandboxes on gVisor and of virtual machines: programs that continue in copies and after a
 * reboot, and kill -9 of every process that takes part in saving and restoring.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { cgroupDirectory, quietly } from '../support/host-view.ts'
import { NO_QEMU } from '../support/qemu.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { isAlive, until, World } from '../support/world.ts'

/** Writes a number that only grows, in memory and on disk. */
const COUNTER = `
import os, time
n = 0
while True:
    n += 1
    open('/tmp/count.new', 'w').write(str(n)); os.replace('/tmp/count.new', '/tmp/count')
    open('/home/user/count.new', 'w').write(str(n)); os.replace('/home/user/count.new', '/home/user/count')
    time.sleep(0.02)
`

/** One connection to Redis for the whole life of the server, and a number in memory. */
const NODE_SERVER = `
const net = require('node:net')
const http = require('node:http')
let connects = 0, hits = 0, waiting = []
const redis = net.connect(6379, '127.0.0.1', () => connects++)
redis.on('data', (data) => waiting.shift()?.(data.toString().trim().slice(1)))
redis.on('error', (error) => { console.error(error); process.exit(1) })
redis.on('close', () => { console.error('closed'); process.exit(1) })
http.createServer((_, response) => {
  hits++
  redis.write('INCR hits\\r\\n')
  waiting.push((stored) => response.end([hits, stored, connects].join(' ')))
}).listen(3000)
`

/** Changes a few bytes of a large array again and again, and checks them. */
const ARRAY = `
import os, time
data = bytearray(500_000_000)
data[::4096] = b'x' * len(data[::4096])
n = 0
while True:
    n += 1
    data[(n * 4096) % len(data)] = ord('y')
    assert data[499_998_720] in b'xy'
    open('/tmp/n.new', 'w').write('%d %d' % (n, len(data))); os.replace('/tmp/n.new', '/tmp/n')
    time.sleep(0.05)
`

/** Writes down what it sees of its machine, as fast as it can. */
const WITNESS = `
import os, time
with open('/tmp/seen', 'w', buffering=1) as out:
    while True:
        out.write('%.3f %s %s\\n' % (time.time(), os.uname().nodename, os.urandom(8).hex()))
        time.sleep(0.001)
`

interface Seen {
  readonly at: number
  readonly name: string
  readonly random: string
}

interface Witnessed {
  readonly before: readonly Seen[]
  readonly after: readonly Seen[]
}

/** What a copy of the witness saw before and after the gap between the snapshot and its start. */
function witnessed(lines: readonly string[]): Witnessed {
  const all = lines.slice(0, -1).map((line): Seen => {
    const [at = '', name = '', random = ''] = line.split(' ')
    return { at: Number(at), name, random }
  })
  const gap = all.findIndex(({ at }, n) => at - (all[n - 1]?.at ?? at) > 2)
  return gap === -1 ? { before: all, after: [] } : { before: all.slice(0, gap), after: all.slice(gap) }
}

/** Redis from Debian's packages, unpacked into a directory. */
function unpackRedis(directory: string): string {
  const packages = ['redis-server', 'redis-tools', 'libjemalloc2', 'liblzf1', 'liblua5.1-0', 'lua-bitop']
  const libraries = ['lua-cjson', 'libhiredis0.14', 'libatomic1']
  execFileSync('apt-get', ['download', ...packages, ...libraries], { cwd: directory, stdio: 'ignore' })
  execFileSync('sh', ['-c', 'for one in *.deb; do dpkg -x "$one" redis; done; tar -cf redis.tar redis'], {
    cwd: directory,
  })
  return join(directory, 'redis.tar')
}

const run = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trim()

/** How sandboxes of a level are made, and how long their steps take. */
const LEVELS = [
  {
    isolation: 'gvisor',
    skip: NO_GVISOR,
    environment: {},
    supervisor: 'gvisor-supervisor',
    /** The moments at which something is killed, in milliseconds after a request. */
    moments: { longest: 260, step: 20 },
    /** What saves memory, and when it is at work. */
    savers: [
      ['checkpoint', 30],
      ['gvisor-supervisor', 30],
      ['gvisor-supervisor', 90],
    ],
  },
  {
    isolation: 'vm',
    skip: NO_QEMU,
    environment: { base: 'debian' },
    supervisor: 'vm-supervisor',
    moments: { longest: 900, step: 75 },
    savers: [
      ['qemu-system', 10],
      ['vm-supervisor', 10],
      ['vm-supervisor', 60],
    ],
  },
] as const

for (const level of LEVELS)
  describe(`memory at the level ${level.isolation}`, { skip: level.skip }, () => {
    const world = new World({ env: sharedBootstrap() })
    after(() => world[Symbol.asyncDispose]())
    const pod = world.client()

    before(async () => {
      if (level.isolation === 'vm') await pod.prepare('debian', () => undefined)
    })

    const create = (name: string, resources: { readonly memoryMib?: number } = {}): Promise<Sandbox> =>
      pod.create({ isolation: level.isolation, environment: level.environment, name, resources })

    const IDENTITY = 'hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id'

    const count = async (box: Sandbox): Promise<number> => Number(await run(box, 'cat /tmp/count'))

    async function counting(name: string): Promise<Sandbox> {
      const box = await create(name)
      await box.writeFile('/home/user/count.py', Buffer.from(COUNTER))
      await run(box, 'nohup python3 ~/count.py >/tmp/errors 2>&1 &')
      await until('the counter to start', async () => (await count(box)) > 5)
      return box
    }

    /** It counts on, and its memory and its files are of one moment. */
    async function goesOn(box: Sandbox, from: number): Promise<void> {
      const now = await count(box)
      assert.ok(now >= from, `${from} ${now}`)
      await until('the counter to go on', async () => (await count(box)) > now)
      assert.equal(await run(box, 'cat /tmp/errors'), '')
      const [memory = 0, file = 0] = (await run(box, 'cat /tmp/count; echo; cat ~/count'))
        .split('\n')
        .map(Number)
      assert.ok(Math.abs(memory - file) < 100, `${memory} ${file}`)
    }

    const processes = (): { pid: number; args: string }[] =>
      execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
        .split('\n')
        .map((line) => ({ pid: Number.parseInt(line, 10), args: line.trim().replace(/^\d+ /, '') }))

    const podhosts = (): number[] =>
      processes()
        .filter(({ args }) => args.includes('podhost serve') && args.includes(world.home))
        .map(({ pid }) => pid)

    async function killed(pids: readonly number[]): Promise<void> {
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
      await until('they are gone', () => pids.every((pid) => !isAlive(pid)))
    }

    /** Everything that runs dies at once, the server first so that it cannot react. */
    async function reboot(): Promise<void> {
      const names = readdirSync(join(world.home, 'run/s')).map((name) => name.split('.')[0] ?? '')
      const supervisors = processes().filter(
        (one) => one.args.includes(level.supervisor) && names.some((name) => isOf(name, one)),
      )
      // The control, where shells wait.
      if (level.isolation === 'gvisor') assert.ok(supervisors.length > 0)
      await killed([world.serverPid, ...podhosts()])
      for (const { pid } of supervisors) {
        const group = isAlive(pid) ? cgroupDirectory(pid, 'freezer') : ''
        if (isAlive(pid)) process.kill(pid, 'SIGKILL')
        // A frozen process takes its signal when it is thawed.
        if (existsSync(join(group, 'freezer.state'))) writeFileSync(join(group, 'freezer.state'), 'THAWED')
        else if (existsSync(join(group, 'cgroup.freeze'))) writeFileSync(join(group, 'cgroup.freeze'), '0')
      }
    }

    /** Processes of a run have its name in their words, or its log as their standard error. */
    const isOf = (name: string, { pid, args }: { pid: number; args: string }): boolean =>
      args.includes(name) || (quietly(() => readlinkSync(`/proc/${pid}/fd/2`)) ?? '').includes(name)

    /** Returns how to find the processes of a sandbox that have a word in their command lines. */
    const victimsOf = (box: Sandbox): ((what: string) => number[]) => {
      const handle = JSON.parse(readFileSync(join(world.home, 'sandboxes', box.id, 'handle.json'), 'utf8'))
      const { shell = 'none' } = handle as { shell?: string }
      return (what) =>
        processes()
          .filter((one) => one.args.includes(what) && isOf(shell, one))
          .map(({ pid }) => pid)
    }

    /** Virtual machines do not have the programs of this machine. */
    async function nodeIn(box: Sandbox): Promise<string> {
      if (level.isolation !== 'vm') return 'node'
      await box.writeFile('/home/user/node', readFileSync(process.execPath))
      await run(box, 'chmod 755 ~/node')
      return './node'
    }

    const settledState = async (box: Sandbox): Promise<string> => {
      let state = ''
      await until('the sweep has seen it', async () => {
        ;({ state } = (await pod.get(box.id)).info)
        return ['running', 'paused', 'stopped'].includes(state)
      })
      return state
    }

    test('STATE-15 a sandbox that is paused to disk takes no memory, and is the same one after a reboot', async () => {
      const box = await counting('same')
      const identity = await run(box, IDENTITY)
      const last = await count(box)
      const { info } = await box.pause({ toDisk: true })
      assert.equal(info.pausedIn, 'disk')
      assert.ok((info.savedBytes ?? 0) > 1_000_000, String(info.savedBytes))
      assert.deepEqual(victimsOf(box)(level.supervisor), [])
      await reboot()
      await goesOn(box, last)
      assert.equal(await run(box, IDENTITY), identity)
      // A second time, from a frozen sandbox; and its files are whole.
      await box.pause()
      const again = await box.pause({ toDisk: true })
      assert.equal(again.info.pausedIn, 'disk')
      await goesOn(box, last)
      await box.pause({ toDisk: true })
      await box.stop()
      await box.start()
      assert.match(await run(box, 'cat ~/count'), /^\d+$/)
      await box.destroy()
    })

    for (const victim of ['podhost', 'server', 'both'] as const) {
      test(`STATE-15 kill -9 of ${victim} at any moment of a pause to disk or a resume loses nothing`, async () => {
        const box = await counting(`kill-${victim}`)
        const kill = async (): Promise<void> => {
          const pids = victim === 'podhost' ? [] : [world.serverPid]
          await killed(victim === 'server' ? pids : [...pids, ...podhosts()])
        }
        let last = await count(box)
        for (let delayMs = 0; delayMs <= level.moments.longest; delayMs += level.moments.step) {
          const saving = box.pause({ toDisk: true }).catch(() => undefined)
          await sleep(delayMs)
          await kill()
          await saving
          assert.match(await settledState(box), /running|paused/, `${delayMs} ms into the save`)
          await goesOn(box, last)
          last = await count(box)
          await box.pause({ toDisk: true })
          const resuming = box.resume().catch(() => undefined)
          await sleep(delayMs)
          await kill()
          await resuming
          assert.match(await settledState(box), /running|paused/, `${delayMs} ms into the resume`)
          await goesOn(box, last)
          last = await count(box)
        }
        await box.destroy()
      })
    }

    test('STATE-15 kill -9 of what saves memory during a save ends the sandbox at most, and its files stay', async () => {
      for (const [what, delayMs] of level.savers) {
        const box = await counting(`end-${what}-${delayMs}`)
        const victims = victimsOf(box)
        // The kernel of a machine writes to its disk some seconds later.
        await run(box, 'sync')
        const saving = box.pause({ toDisk: true }).catch(() => undefined)
        await sleep(delayMs)
        await killed(victims(what))
        await saving
        const state = await settledState(box)
        if (state === 'stopped') await box.start()
        assert.match(await run(box, 'cat ~/count'), /^\d+$/, `${what}: ${state}`)
        await box.destroy()
      }
    })

    test('STATE-14 no program of a copy runs before it has its own name, time and random numbers', {
      // gVisor's kernel takes time and random numbers from the host.
      skip: level.isolation === 'vm' ? false : 'a virtual machine keeps them in its memory',
    }, async () => {
      const box = await create('witness')
      await box.writeFile('/home/user/witness.py', Buffer.from(WITNESS))
      await run(box, 'nohup python3 witness.py >/tmp/errors 2>&1 &')
      await until('it writes', async () => (await run(box, 'wc -l < /tmp/seen || true')) > '2', 120_000)
      await box.snapshot({ name: 'witnessed', memory: true })
      // A copy that ran before it was renewed would see the time of the snapshot.
      await sleep(3_000)
      const seen: Witnessed[] = []
      const log = (): string => readFileSync(join(world.home, 'logs', 'podhost.log'), 'utf8')
      const waited = (): number => log().match(/machine \S+ waits/g)?.length ?? 0
      for (const name of ['witness-1', 'witness-2']) {
        const before = waited()
        const copy = await pod.create({ snapshot: 'witnessed', name })
        // The second one was a machine that waited.
        const isFromWaiting = new RegExp(`${copy.id}: create: .*waiting machine`).test(log())
        assert.equal(isFromWaiting, name === 'witness-2')
        await until('the next machine waits', () => waited() > before, 30_000)
        const lines = async (): Promise<string[]> => (await run(copy, 'cat /tmp/seen')).split('\n')
        await until('it writes on', async () => witnessed(await lines()).after.length > 2)
        assert.equal(await run(copy, 'cat /tmp/errors'), '')
        seen.push(witnessed(await lines()))
        await copy.destroy()
      }
      const [one, other] = seen
      assert.ok(one && other)
      assert.deepEqual(one.before.at(-1), other.before.at(-1), 'both stopped at the moment of the snapshot')
      for (const [n, { before, after }] of seen.entries()) {
        assert.ok(before.every(({ name }) => name === 'witness'))
        assert.ok(
          after.every(({ name }) => name === `witness-${n + 1}`),
          JSON.stringify(after.slice(0, 3)),
        )
      }
      assert.notEqual(one.after[0]?.random, other.after[0]?.random)
      await pod.snapshots.remove('witnessed')
      await box.destroy()
    })

    test('STATE-14 a Node server with its connection to a database continues in four copies', async () => {
      const box = await create('web')
      await box.writeFile('/home/user/redis.tar', readFileSync(unpackRedis(world.directory())))
      await box.writeFile('/home/user/server.js', Buffer.from(NODE_SERVER))
      const node = await nodeIn(box)
      await run(
        box,
        `tar -xf redis.tar; export LD_LIBRARY_PATH=$HOME/redis/usr/lib/x86_64-linux-gnu
       nohup redis/usr/bin/redis-server --save '' --daemonize no >redis.log 2>&1 &
       sleep 1; nohup ${node} server.js >server.log 2>&1 &`,
      )
      const hit = (one: Sandbox): Promise<string> => run(one, 'curl -sS -m 10 http://127.0.0.1:3000/')
      await until('the server answers', async () => /^\d+ \d+ 1$/.test(await hit(box)))
      const [at = 0] = (await hit(box)).split(' ').map(Number)
      const copies = await box.fork({ count: 4, name: 'web-copy', memory: true })
      for (const one of [box, ...copies]) {
        // The number in memory, the one in the database, and still the first connection.
        assert.equal(await hit(one), `${at + 1} ${at + 1} 1`)
        assert.equal(await run(one, 'cat server.log'), '')
      }
      for (const one of [box, ...copies]) await one.destroy()
    })

    test('STATE-14 STATE-15 a Python process with 500 MB continues in four copies, and after a reboot', async () => {
      const box = await create('array', { memoryMib: 1500 })
      await box.writeFile('/home/user/array.py', Buffer.from(ARRAY))
      await run(box, 'nohup python3 array.py >/tmp/errors 2>&1 &')
      const n = async (one: Sandbox): Promise<number> => {
        const [round, size] = (await run(one, 'cat /tmp/n')).split(' ')
        assert.equal(size, '500000000')
        return Number(round)
      }
      await until('it runs', async () => (await run(box, 'cat /tmp/n')) !== '', 120_000)
      const goesOnFrom = async (one: Sandbox, from: number): Promise<void> => {
        const now = await n(one)
        assert.ok(now >= from, `${from} ${now}`)
        await until('it goes on', async () => (await n(one)) > now)
        assert.equal(await run(one, 'cat /tmp/errors'), '')
      }
      const at = await n(box)
      for (const copy of await box.fork({ count: 4, name: 'array-copy', memory: true })) {
        await goesOnFrom(copy, at)
        await copy.destroy()
      }
      const last = await n(box)
      const { savedBytes = 0 } = (await box.pause({ toDisk: true })).info
      assert.ok(savedBytes > 500_000_000, String(savedBytes))
      await reboot()
      assert.equal((await pod.get(box.id)).info.pausedIn, 'disk')
      await goesOnFrom(box, last)
      await box.destroy()
    })

    test('STATE-15 after a reboot, a sandbox that was being saved is stopped or saved, and its files are there', async () => {
      const box = await counting('rebooted')
      await run(box, 'sync')
      const saving = box.pause({ toDisk: true }).catch(() => undefined)
      await sleep(60)
      await reboot()
      await saving
      const state = await settledState(box).catch(() => 'failed')
      assert.match(state, /paused|stopped|failed/)
      if (state !== 'failed') assert.match(await run(box, 'cat ~/count'), /^\d+$/)
      await box.destroy()
    })
  })
