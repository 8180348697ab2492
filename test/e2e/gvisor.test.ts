/** Sandboxes on gVisor through the command line and the SDK, and the memory of their processes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { LEVELS } from '../support/contract-table.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { idsOf, podhostOf } from '../support/host-view.ts'
import { NOT_LONG } from '../support/long.ts'
import { type MachinePosture, machinePosture } from '../support/machine-view.ts'
import { isAlive, ROOT, until, World } from '../support/world.ts'

/** Counts in a file of memory, in a file on disk, and over a connection between two processes inside. */
const COUNTER = `
import socket, threading, time
server = socket.create_server(('127.0.0.1', 7000))
def answer():
    peer, _ = server.accept()
    while peer.recv(1):
        peer.send(b'x')
threading.Thread(target=answer, daemon=True).start()
line = socket.create_connection(('127.0.0.1', 7000))
kept = bytearray(b'remembered') * 100000
n = 0
while True:
    n += 1
    line.send(b'x')
    assert line.recv(1) == b'x'
    open('/tmp/count.new', 'w').write('%d %d' % (n, len(kept)))
    import os; os.replace('/tmp/count.new', '/tmp/count')
    time.sleep(0.02)
`

const GOLDEN = join(ROOT, 'test/attack/golden/posture-gvisor.json')

const run = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trim()

const count = async (sandbox: Sandbox): Promise<number> =>
  Number((await run(sandbox, 'cat /tmp/count')).split(' ')[0])

async function counts(sandbox: Sandbox): Promise<number> {
  const first = await count(sandbox)
  await until('the counter to continue', async () => (await count(sandbox)) > first)
  return first
}

/** Through the proxy variables, and by a connection that is redirected: both meet the rules. */
const REACH = `curl -sS -m 5 http://example.com/; curl -sS -m 5 --noproxy '*' http://example.com/`
const REFUSED_TWICE = /no rule allows example.com[\s\S]*no rule allows example.com/

const identity = (sandbox: Sandbox): Promise<string> =>
  run(
    sandbox,
    'hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 8 /dev/urandom | od -An -tx1',
  )

function processesWith(text: string): { pid: number; args: string }[] {
  return execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(text))
    .map((line) => ({ pid: Number.parseInt(line, 10), args: line.trim().replace(/^\d+ /, '') }))
}

/** Changes a byte in the middle of a file; a second call changes it back. Returns it before and after. */
function flip(path: string): [number, number] {
  const data = readFileSync(path)
  const at = data.length >> 1
  const before = data[at] ?? 0
  data[at] = before ^ 0xff
  writeFileSync(path, data)
  return [before, before ^ 0xff]
}

describe('gVisor', { skip: NO_GVISOR }, () => {
  const world = new World()
  after(() => world[Symbol.asyncDispose]())
  const pod = world.client()

  async function killServerAndPodhost(): Promise<void> {
    const podhost = processesWith('podhost serve').filter(({ args }) => args.includes(world.home))
    for (const pid of [world.serverPid, ...podhost.map(({ pid }) => pid)]) process.kill(pid, 'SIGKILL')
    await until('both gone', () => podhost.every(({ pid }) => !isAlive(pid)))
  }

  /** Processes of gVisor for a sandbox: their group is named in its handle. */
  function processesOf(id: string): { pid: number; args: string }[] {
    const { shell } = JSON.parse(readFileSync(join(world.home, 'sandboxes', id, 'handle.json'), 'utf8')) as {
      shell?: string
    }
    return shell === undefined ? [] : processesWith(shell)
  }

  test('PROV-9 a gVisor sandbox has a kernel of its own, the same commands, files and closed network', async () => {
    const id = (await world.ok(['create', '--isolation', 'gvisor', '--name', 'box'])).trim()
    assert.match(await world.ok(['exec', 'box', '--', 'uname', '-r']), /gvisor/)
    // The control: the kernel of the host is another one.
    assert.doesNotMatch(execFileSync('uname', ['-r'], { encoding: 'utf8' }), /gvisor/)
    const [listed] = JSON.parse(await world.ok(['ls', '--json'])) as { id: string; isolation: string }[]
    assert.deepEqual([listed?.id, listed?.isolation], [id, 'gvisor'])
    const provider = (await pod.providers()).find(({ name }) => name === 'gvisor')
    const { notes: _, ...levels } = provider?.capabilities ?? { notes: [] }
    assert.deepEqual(levels, LEVELS.gvisor, 'docs/reference/providers.md has its capabilities')
    const box = await pod.get('box')
    assert.match(await run(box, REACH), REFUSED_TWICE)
    const own =
      'import socket,threading;s=socket.create_server(("127.0.0.1",0));a=s.getsockname();threading.Thread(target=lambda:s.accept()[0].send(b"inside")).start();print(socket.create_connection(a).recv(9).decode())'
    assert.equal(await run(box, `python3 -c '${own}'`), 'inside')
    assert.equal(
      await run(box, 'id -un; echo kept > ~/file; cat ~/file; ls / | wc -l | xargs test 10 -lt && echo root'),
      'user\nkept\nroot',
    )
    await world.ok(['stop', 'box'])
    await world.ok(['start', 'box'])
    assert.equal(await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
  })

  test('PROV-9 the processes of gVisor have ids, namespaces and filters of their own, and nothing of the host', async () => {
    const { id } = await pod.get('box')
    const podhost = podhostOf(world)
    const { base } = await idsOf(podhost, id)
    await podhost.close()
    const found: Record<string, MachinePosture> = {}
    for (const { pid, args } of processesOf(id)) {
      const [, name] = /^runsc-(sandbox|gofer) /.exec(args) ?? []
      if (name !== undefined) found[name] = machinePosture(pid, base)
    }
    if (process.env['AGENTPOD_UPDATE_GOLDEN'] === '1')
      writeFileSync(GOLDEN, `${JSON.stringify(found, null, 2)}\n`)
    assert.deepEqual(found, JSON.parse(readFileSync(GOLDEN, 'utf8')))
    // The control: the same probe of this process shows rights that they do not have.
    for (const { status } of Object.values(found))
      assert.notEqual(machinePosture(process.pid).status['CapEff'], status['CapEff'])
  })

  test('PROV-9 the environment of a project is built on gVisor too, and its tests run there', {
    skip: NOT_LONG,
  }, async () => {
    const cwd = world.directory()
    writeFileSync(
      join(cwd, 'package.json'),
      '{ "name": "own", "scripts": { "test": "cat made; uname -r" } }\n',
    )
    writeFileSync(
      join(cwd, 'agentpod.toml'),
      'isolation = "gvisor"\n[lifecycle]\nsetup = "uname -r > made"\n',
    )
    assert.match(await world.ok(['test'], { cwd }), /gvisor\n.*gvisor/)
  })

  test('PROV-9 BOX-4 a gVisor sandbox outlives the server and podhost, which are killed', async () => {
    const box = await pod.get('box')
    await run(box, `nohup sh -c 'sleep 600' >/dev/null 2>&1 & echo $! > /tmp/pid`)
    await killServerAndPodhost()
    assert.equal(
      await world.ok(['exec', 'box', '--', 'sh', '-c', 'kill -0 $(cat /tmp/pid) && echo alive']),
      'alive\n',
    )
    await world.ok(['destroy', 'box'])
  })

  test('PROV-10 `isolation` in config.toml and of a key is the lowest level; a request cannot lower it', async () => {
    const key = (await world.ok(['key', 'create', '--isolation', 'gvisor', '--quiet'])).trim()
    const { port } = await pod.listen(0)
    const own = AgentPod.at({ url: `http://127.0.0.1:${port}`, key })
    await using box = await own.create({ isolation: 'container' })
    assert.equal(box.info.isolation, 'gvisor')
    await assert.rejects(own.create({ provider: 'crun' }), { reason: 'isolation.unavailable' })
    assert.match(await world.ok(['key', 'ls']), /allowlist +gvisor +never expires/)
    // The control: without a rule the same request is a container.
    assert.equal(
      (await world.ok(['run', '--', 'uname', '-r'], { cwd: world.directory() })).includes('gvisor'),
      false,
    )
    writeFileSync(join(world.home, 'config.toml'), 'isolation = "gvisor"\n')
    try {
      assert.match(await world.ok(['run', '--', 'uname', '-r'], { cwd: world.directory() }), /gvisor/)
      const no = await world.cli(['create', '--provider', 'crun'])
      assert.equal(no.code, 6)
      assert.match(no.stderr, /the provider crun does not offer isolation gvisor/)
    } finally {
      rmSync(join(world.home, 'config.toml'))
    }
  })

  test('STATE-14 a snapshot with memory is continued by its copies, each with an identity of its own', async () => {
    const box = await pod.create({ isolation: 'gvisor', name: 'counter' })
    await box.writeFile('/home/user/count.py', Buffer.from(COUNTER))
    await run(box, 'nohup python3 ~/count.py >/tmp/errors 2>&1 &')
    await until('the counter to start', async () => (await count(box)) > 5)
    const shot = await box.snapshot({ name: 'moment', memory: true })
    assert.deepEqual([shot.fidelity, shot.memoryBytes > 1_000_000], ['memory', true])
    const at = await counts(box)
    const forks = await box.fork({ count: 2, name: 'copy', memory: true })
    await sleep(300)
    await world.ok(['destroy', 'counter'])
    const restored = await pod.create({ snapshot: 'moment', name: 'restored' })
    const copies = [...forks, restored]
    // The restored one continues from an earlier moment than the forks.
    assert.ok((await counts(restored)) < 2 * at + 200)
    for (const copy of copies) {
      await counts(copy)
      assert.equal(await run(copy, 'cat /tmp/errors; cut -d" " -f2 /tmp/count'), '1000000')
      assert.match(await run(copy, REACH), REFUSED_TWICE)
    }
    const identities = (await Promise.all(copies.map(identity))).map((text) => text.split('\n'))
    for (const n of [0, 1, 2, 3])
      assert.equal(new Set(identities.map((lines) => lines[n])).size, copies.length, `line ${n}`)
    assert.deepEqual(
      identities.map(([name]) => name),
      ['copy-1', 'copy-2', 'restored'],
    )
    const files = await pod.create({ snapshot: 'moment', memory: false })
    assert.equal(await run(files, 'ls ~/count.py; pgrep -c python3'), '/home/user/count.py\n0')
    for (const one of [...copies, files]) await one.destroy()
    await world.ok(['snapshot', 'rm', 'moment'])
  })

  test('STATE-15 a sandbox that is paused to disk continues after the server and podhost were killed', async () => {
    const box = await pod.create({ isolation: 'gvisor', name: 'saved' })
    await box.writeFile('/home/user/count.py', Buffer.from(COUNTER))
    await run(box, 'nohup python3 ~/count.py >/tmp/errors 2>&1 & echo kept > ~/file')
    await until('the counter to start', async () => (await count(box)) > 5)
    const before = (await identity(box)).split('\n')
    const at = await count(box)
    assert.match(
      await world.ok(['pause', '--to-disk', 'saved']),
      /^saved is paused on disk \([0-9.]+ MiB of memory\)\n$/,
    )
    assert.deepEqual(processesOf(box.id), [], 'nothing of it runs')
    const { pausedIn, savedBytes = 0 } = (await pod.get('saved')).info
    assert.deepEqual([pausedIn, savedBytes > 1_000_000], ['disk', true])
    assert.match(await world.ok(['ls']), /saved +paused \([0-9.]+ MiB on disk\)/)
    await killServerAndPodhost()
    assert.match(await world.ok(['ls']), /saved +paused \([0-9.]+ MiB on disk\)/)

    // Damaged memory is refused, and nothing is lost.
    const pages = join(world.home, 'sandboxes', box.id, 'memory', 'pages.img')
    const [byte] = flip(pages)
    const no = await world.cli(['resume', 'saved'])
    assert.equal(no.code, 9)
    assert.match(
      no.stderr,
      /the saved memory of sandbox \w+ is damaged: the content of pages.img has changed\n.*agentpod stop/,
    )
    assert.equal((await pod.get('saved')).info.state, 'paused')
    assert.equal(flip(pages)[1], byte)

    // The next call wakes it.
    const continued = await counts(await pod.get('saved'))
    assert.ok(continued >= at && continued < at + 200, `${at} ${continued}`)
    assert.deepEqual((await identity(box)).split('\n').slice(0, 3), before.slice(0, 3))
    assert.equal(await run(box, 'cat /tmp/errors ~/file'), 'kept')
    assert.match(await run(box, REACH), REFUSED_TWICE)

    // A frozen one is saved too; a stop gives up its processes and keeps its files.
    await box.pause()
    assert.equal((await box.pause({ toDisk: true })).info.pausedIn, 'disk')
    await box.stop()
    await box.start()
    assert.equal(await run(box, 'cat ~/file; pgrep -c python3'), 'kept\n0')
    await box.destroy()
  })

  test('STATE-1 PROV-9 programs on gVisor survive many pauses and snapshots of files in quick succession', async () => {
    await using box = await pod.create({ isolation: 'gvisor' })
    await box.writeFile('/home/user/count.py', Buffer.from(COUNTER))
    await run(box, 'nohup python3 ~/count.py >/tmp/errors 2>&1 &')
    await until('the counter to start', async () => (await count(box)) > 5)
    for (let round = 0; round < 10; round++) {
      await box.pause()
      await box.resume()
      const { id } = await box.snapshot({})
      await pod.snapshots.remove(id)
    }
    await counts(box)
    assert.equal(await run(box, 'cat /tmp/errors; echo fine'), 'fine')
  })

  test('STATE-15 a process that cannot be saved is named, and the sandbox continues, running or paused', async () => {
    const box = await pod.create({ isolation: 'gvisor', name: 'stuck', lifetime: { autoResume: false } })
    await run(
      box,
      'mkfifo ~/pipe; nohup sh -c "exec 3<>$HOME/pipe; rm $HOME/pipe; sleep 600" >/dev/null 2>&1 &',
    )
    await until('the pipe to be removed', async () => (await run(box, 'ls ~/pipe || echo gone')) === 'gone')
    for (const args of [
      ['pause', '--to-disk', 'stuck'],
      ['snapshot', 'create', 'stuck', '--memory'],
    ]) {
      const no = await world.cli(args)
      assert.match(
        no.stderr,
        /cannot be saved: a program has \/home\/user\/pipe open, a named pipe or socket that was removed\nhint: the sandbox continues/,
      )
      assert.equal(await run(box, 'echo on'), 'on')
    }
    await box.pause()
    await assert.rejects(box.pause({ toDisk: true }), { reason: 'snapshot.unsavable' })
    assert.deepEqual(
      [(await pod.get('stuck')).info.state, (await pod.get('stuck')).info.pausedIn],
      ['paused', 'memory'],
    )
    await box.resume()
    // The control: without that process the same sandbox can be saved.
    await until('the program to end', async () => (await run(box, 'pkill sleep; pgrep -c sleep')) === '0')
    assert.equal((await box.pause({ toDisk: true })).info.pausedIn, 'disk')
    await box.destroy()
  })

  test('STATE-14 memory is refused where it cannot be saved, and the sandbox continues', async () => {
    await world.ok(['create', '--name', 'plain'])
    const no = await world.cli(['snapshot', 'create', 'plain', '--memory'])
    assert.equal(no.code, 6)
    assert.match(no.stderr, /the provider crun cannot save the memory of a sandbox\n.*--isolation gvisor/)
    assert.equal(await world.ok(['exec', 'plain', '--', 'echo', 'on']), 'on\n')
    await world.ok(['snapshot', 'plain', '--name', 'files'])
    await assert.rejects(pod.create({ snapshot: 'files', memory: true }), /has files only/)
    await world.ok(['destroy', 'plain'])
  })
})
