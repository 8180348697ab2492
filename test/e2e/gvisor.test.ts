/** Sandboxes on gVisor through the command line and the SDK, and the memory of their processes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { LEVELS } from '../support/contract-table.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { isAlive, until, World } from '../support/world.ts'

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

const run = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trim()

const count = async (sandbox: Sandbox): Promise<number> =>
  Number((await run(sandbox, 'cat /tmp/count')).split(' ')[0])

async function counts(sandbox: Sandbox): Promise<number> {
  const first = await count(sandbox)
  await until('the counter to continue', async () => (await count(sandbox)) > first)
  return first
}

const identity = (sandbox: Sandbox): Promise<string> =>
  run(
    sandbox,
    'hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 8 /dev/urandom | od -An -tx1',
  )

describe('gVisor', { skip: NO_GVISOR }, () => {
  const world = new World()
  after(() => world[Symbol.asyncDispose]())
  const pod = world.client()

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
    assert.match(await run(box, 'curl -sS -m 5 http://example.com/'), /no rule allows example.com/)
    assert.equal(
      await run(box, 'id -un; echo kept > ~/file; cat ~/file; ls / | wc -l | xargs test 10 -lt && echo root'),
      'user\nkept\nroot',
    )
    await world.ok(['stop', 'box'])
    await world.ok(['start', 'box'])
    assert.equal(await world.ok(['exec', 'box', '--', 'sh', '-c', 'cat ~/file']), 'kept\n')
  })

  test('PROV-9 the environment of a project is built on gVisor too, and its tests run there', async () => {
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
    const podhost = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => /podhost serve/.test(line) && line.includes(world.home))
      .map((line) => Number.parseInt(line, 10))
    for (const pid of [world.serverPid, ...podhost]) process.kill(pid, 'SIGKILL')
    await until('both gone', () => podhost.every((pid) => !isAlive(pid)))
    assert.equal(
      await world.ok(['exec', 'box', '--', 'sh', '-c', 'kill -0 $(cat /tmp/pid) && echo alive']),
      'alive\n',
    )
    await world.ok(['destroy', 'box'])
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
      assert.match(await run(copy, 'curl -sS -m 5 http://example.com/'), /no rule allows example.com/)
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
