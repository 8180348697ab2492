/**
 * Findings of a red team about the kernel that sandboxes share. test/attack/kernel-limits.test.ts has the
 * details and the controls.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import type { Check } from '../../src/core/capability.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { podhostOf } from '../support/host-view.ts'
import {
  AIO,
  CANNOT_SET_OOM_FLOOR,
  FILTERS,
  heldBySocketsMib,
  KERNEL_FILES,
  SOCKET_BUFFERS,
  TERMINALS,
} from '../support/kernel-probes.ts'
import { inside, outside, PRELUDE, shell } from '../support/probe.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const client = world.client()
let sandbox: Sandbox

before(async () => {
  sandbox = await client.create({ resources: { memoryMib: 128 } })
})

after(() => world[Symbol.asyncDispose]())

test('S2: no payload fills the kernel’s room for filters, and new sandboxes start', async () => {
  const { 'socket filter': control } = await outside<Record<string, string>>(FILTERS)
  assert.equal(control, 'ok', 'the control: the host may')
  const greedy = `${FILTERS}
refused = 0
for _ in range(500):
  if attempt(lambda: attached(26, 4096)) == 'EPERM': refused += 1
tell(refused)`
  assert.equal(await inside(sandbox, greedy), 500)
  await using next = await client.create({})
  assert.equal(await shell(next, 'grep -c "^Seccomp:.2" /proc/self/status'), '1\n')
})

test('S3: the memory limit of a sandbox holds for what its sockets buffer', async () => {
  for (const kind of ['tcp', 'udp'] as const) {
    await using greedy = await client.create({ resources: { memoryMib: 128 } })
    const earlier = heldBySocketsMib(kind)
    const holder = greedy.exec('/usr/bin/python3', {
      args: ['-c', PRELUDE + SOCKET_BUFFERS(kind)],
      stdin: true,
    })
    await holder.output().next()
    const held = heldBySocketsMib(kind) - earlier
    assert.ok(held >= 1 && held < 256, `${kind}: ${held} MiB in a sandbox of 128 MiB`)
  }
})

test('S4: a payload uses up neither AIO contexts nor terminals of the machine', async () => {
  assert.equal(await inside(sandbox, AIO), 'ENOSYS')
  assert.equal(await inside(sandbox, TERMINALS), 128)
})

test('S4: doctor says whether sandboxes can use up the machine’s open files, and what to do', async () => {
  const { stdout } = await world.cli(['doctor', '--json'])
  const { checks } = JSON.parse(stdout) as { checks: Check[] }
  const check = checks.find(({ name }) => name === 'open-files')
  const most = readFileSync('/proc/sys/fs/file-max', 'utf8').trim()
  assert.match(check?.detail ?? '', new RegExp(`fs.file-max is ${most}:`))
  assert.equal(check?.required, false)
  assert.equal(check?.ok, Number(most) >= totalmem() / 128)
  if (!check.ok) assert.match(check.hint ?? '', /sysctl -w fs\.file-max=/)
})

test('S7: /sys and /proc tell nothing about the host’s disks, mounts and command line', async () => {
  const found = await inside<{ sys: string[]; texts: string[]; proc: Record<string, number> }>(
    sandbox,
    KERNEL_FILES,
  )
  assert.deepEqual(
    found.sys.filter((name) =>
      /^\/sys\/(?:block|dev\/|fs\/.*\w\/|module|firmware|devices\/pci|class\/block)/.test(name),
    ),
    [],
  )
  assert.ok(!found.texts.join('\n').includes(world.home))
  for (const name of ['cmdline', 'diskstats', 'locks', 'partitions']) assert.equal(found.proc[name], 0, name)
  assert.match(await shell(sandbox, 'nproc; cat /sys/devices/system/cpu/online'), /^\d+\n0/)
})

test('S12: a payload cannot lower its OOM score to the host’s', { skip: CANNOT_SET_OOM_FLOOR }, async () => {
  assert.equal(await inside(sandbox, `tell(write('/proc/self/oom_score_adj', '0'))`), 'EACCES')
})

test('S12: create says within half a minute that podhost is stopped, and works when it goes on', async () => {
  const podhost = podhostOf(world)
  const { pid } = (await podhost.call('hello', {}, { timeoutMs: 10_000 })) as { pid: number }
  await podhost.close()
  process.kill(pid, 'SIGSTOP')
  const started = performance.now()
  try {
    await assert.rejects(client.create({}), (error: unknown) => {
      assert.ok(isAgentPodError(error, 'unavailable'))
      assert.equal(error.reason, 'podhost.silent')
      assert.match(error.hint ?? '', /kill -CONT/)
      return true
    })
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  assert.ok(performance.now() - started < 30_000, 'it gives up in time')
  await using next = await client.create({})
  assert.equal(await shell(next, 'echo fine'), 'fine\n')
})

test('S12: a preview does not reach podd’s own port', async () => {
  const server = sandbox.exec('/usr/bin/python3', {
    args: ['-m', 'http.server', '8000', '--bind', '127.0.0.1'],
  })
  const ended = server.wait().catch(() => undefined)
  await until('the control: another port is reached', async () => {
    const socket = await sandbox.dial(8000).catch(() => undefined)
    socket?.destroy()
    return socket !== undefined
  })
  await server.signal('SIGKILL')
  await ended
  await assert.rejects(sandbox.dial(61_080), { reason: 'port.closed' })
})

test('S12: what a sandbox deletes makes room in it, also when a snapshot still has it', async (t) => {
  await using filled = await client.create({ resources: { diskMib: 48 } })
  if (filled.info.limits?.disk.level !== 'enforced') return t.skip('there is no pool with quotas here')
  const write = async (name: string): Promise<string> =>
    shell(filled, `head -c ${30 << 20} /dev/urandom > ~/${name} && sync ~/${name} && echo ok`)
  assert.equal(await write('first'), 'ok\n')
  assert.match(await write('second'), /quota|space/i, 'the control: the limit holds')
  await shell(filled, 'rm ~/second; sync ~')
  const snapshot = await filled.snapshot({})
  await shell(filled, 'rm ~/first; sync ~')
  assert.equal(await write('second'), 'ok\n', 'there is room again')
  assert.match(await write('third'), /quota|space/i, 'and no more than before')
  await shell(filled, 'rm ~/third')
  await client.snapshots.remove(snapshot.id)
  await until('without the snapshot the limit is as it was', async () => {
    const found = await write('third')
    await shell(filled, 'rm -f ~/third')
    return /quota|space/i.test(found)
  })
})

test('S12: a key learns of the host’s tools only what its own sandboxes show', async () => {
  const { host } = await client.builds.toolchains()
  assert.ok(host.length > 0, 'the control: there are tools')
  const directories = [...new Set(host.map(({ directory }) => directory))]
  await using own = await client.create({})
  const { stdout } = await own
    .exec('/bin/sh', {
      args: ['-c', 'for d; do [ -d "$d" ] || echo "$d"; done', 'look', ...directories, world.home],
    })
    .wait()
  assert.equal(stdout, `${world.home}\n`, 'the control: a directory of the host alone is not there')
})
