/** Virtual machines whose parts are missing, killed, damaged or greedy. */
import assert from 'node:assert/strict'
import {
  chmodSync,
  closeSync,
  cpSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAgentPodError } from '../../src/core/error.ts'
import type { Guest } from '../../src/core/guest.ts'
import type { SandboxId, SnapshotId } from '../../src/core/id.ts'
import { newSandboxId, newSnapshotId, parseOwner } from '../../src/core/id.ts'
import type { CreatePlan } from '../../src/core/provider.ts'
import { resolveResources } from '../../src/core/resources.ts'
import { contentOf, INIT, runCommand, writeFile } from '../../src/testing/contract-context.ts'
import { systemRandom } from '../../src/util/random.ts'
import { allPids, quietly } from '../support/host-view.ts'
import { NO_QEMU, openQemu, type QemuStage, SMALL_MACHINE } from '../support/qemu.ts'
import { isAlive, until } from '../support/world.ts'

const CALL = { timeoutMs: 120_000 }
const OWNER = parseOwner('faults')

describe('faults of virtual machines', { skip: NO_QEMU }, () => {
  let stage: QemuStage
  before(async () => {
    stage = await openQemu()
  })
  after(() => stage?.close())

  const plan = (over: Partial<CreatePlan> = {}): CreatePlan => ({
    sandboxId: newSandboxId(systemRandom),
    owner: OWNER,
    hostname: 'machine',
    root: stage.root,
    resources: resolveResources({ ...SMALL_MACHINE, pids: 64 }),
    required: [],
    deadlineAt: Date.now() + 3_600_000,
    whenOver: 'destroy',
    mounts: [],
    ...over,
  })

  async function started(over: Partial<CreatePlan> = {}): Promise<{ id: SandboxId; guest: Guest }> {
    const created = await stage.provider.create(plan(over), CALL)
    const guest = stage.provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    return { id: created.handle.sandboxId, guest }
  }

  const destroy = (id: SandboxId): Promise<void> => stage.provider.destroy(id, CALL)

  async function supervisor(id: SandboxId): Promise<number> {
    const { pid } = await stage.podhost.call('sandbox.inspect', { id }, CALL)
    return Number(pid)
  }

  /** Processes, control groups and files of runs that are left on the host. */
  function left(): string[] {
    // Every process of a machine writes to the log of its run.
    const processes = allPids().filter((pid) =>
      (quietly(() => readlinkSync(`/proc/${pid}/fd/2`)) ?? '').startsWith(join(stage.home, 'run/s')),
    )
    return [
      ...processes.map(String),
      ...readdirSync(join(stage.home, 'run/s')),
      ...readdirSync(join(stage.home, 'sandboxes')),
    ]
  }

  /** Changes one byte in the middle of saved memory, or changes it back. */
  async function flip(name: string): Promise<void> {
    const { pid } = await stage.podhost.call('hello', {}, CALL)
    const path = `/proc/${pid}/root/mnt/pool/machines/${name}/data/memory`
    const memory = openSync(path, 'r+')
    const byte = Buffer.alloc(1)
    const middle = Math.floor(statSync(path).size / 2)
    readSync(memory, byte, 0, 1, middle)
    byte[0] = (byte[0] ?? 0) ^ 0xff
    writeSync(memory, byte, 0, 1, middle)
    closeSync(memory)
  }

  const refused = async (work: Promise<unknown>, message: RegExp, hint?: RegExp): Promise<void> => {
    await assert.rejects(work, (error) => {
      assert.ok(isAgentPodError(error))
      assert.match(error.message, message)
      if (hint) assert.match(error.hint ?? '', hint)
      return true
    })
  }

  test('PROV-12 a machine that uses up its memory loses the largest process and nothing else', async () => {
    const { id, guest } = await started()
    const script = "perl -e 'push @a, q(x) x 1048576 for 1..600; print 1'; echo $?"
    assert.match((await runCommand(guest, 'sh', ['-c', script])).stdout, /137/)
    // The control: what fits is allowed.
    const small = "perl -e 'push @a, q(x) x 1048576 for 1..32; print scalar @a'"
    assert.equal((await runCommand(guest, 'sh', ['-c', small])).stdout, '32')
    await destroy(id)
    assert.deepEqual(left(), [])
  })

  test('PROV-12 a machine that fills its disk stops there, and its neighbours write on', async () => {
    const resources = resolveResources({ ...SMALL_MACHINE, diskMib: 64 })
    const full = await started({ resources })
    const other = await started()
    const said = await runCommand(full.guest, 'sh', [
      '-c',
      'dd if=/dev/zero of=/home/user/f bs=1M count=200 2>&1',
    ])
    assert.match(said.stdout, /No space left on device/)
    await writeFile(other.guest, '/home/user/file', Buffer.from('fits'))
    assert.equal(await contentOf(other.guest, '/home/user/file'), 'fits')
    for (const { id } of [full, other]) await destroy(id)
  })

  test('PROV-12 a supervisor that is killed takes its machine along, and the sandbox has exited', async () => {
    const { id } = await started()
    const pid = await supervisor(id)
    const qemu = allPids().find((one) =>
      new RegExp(`^PPid:\\t${pid}$`, 'm').test(
        quietly(() => readFileSync(`/proc/${one}/status`, 'utf8')) ?? '',
      ),
    )
    assert.ok(qemu)
    process.kill(pid, 'SIGKILL')
    await until('both to end', () => !isAlive(pid) && !isAlive(qemu))
    await until('podhost to see it', async () => (await stage.provider.inspect(id, CALL)).state === 'exited')
    await destroy(id)
    assert.deepEqual(left(), [])
  })

  test('PROV-12 podhost killed at any moment of a create leaves nothing, and the next one works', async () => {
    for (const pause of [20, 120, 350, 700]) {
      const { pid } = await stage.podhost.call('hello', {}, CALL)
      const asked = plan()
      const work = stage.provider.create(asked, CALL).catch(() => undefined)
      await sleep(pause)
      process.kill(Number(pid), 'SIGKILL')
      // The request is sent again to the next podhost, unless it was answered before.
      await work
      await destroy(asked.sandboxId)
      await until(`nothing to be left after ${pause} ms`, () => left().length === 0)
    }
    const { id } = await started()
    await destroy(id)
  })

  test('PROV-12 saved memory that was cut or is of another version is refused, and nothing is left', async () => {
    const { snapshots } = stage.provider
    assert.ok(snapshots)
    const { id } = await started()
    const take = async (): Promise<{ snapshot: SnapshotId; dir: string; over: Partial<CreatePlan> }> => {
      const snapshot = newSnapshotId(systemRandom)
      const { root } = await snapshots.create(snapshot, id, OWNER, { ...CALL, hasMemory: true })
      return {
        snapshot,
        dir: join(stage.home, 'snapshots', snapshot),
        over: { snapshot, root, hasMemory: true },
      }
    }
    const good = await take()
    const cut = await take()
    truncateSync(join(cut.dir, 'memory/state'), 50_000)
    await refused(stage.provider.create(plan(cut.over), CALL), /start of|state/)
    const changed = await take()
    await flip(changed.snapshot)
    await refused(
      stage.provider.create(plan(changed.over), CALL),
      /is damaged: the content of memory has changed/,
      /--files/,
    )
    const old = await take()
    const record = join(old.dir, 'snapshot.json')
    writeFileSync(record, readFileSync(record, 'utf8').replace(/QEMU [^,]*,/, 'QEMU 6.0.0,'))
    await refused(stage.provider.create(plan(old.over), CALL), /was saved by QEMU 6.0.0/, /--files/)
    const larger = resolveResources({ memoryMib: 512, cpus: 1, pids: 64 })
    await refused(
      stage.provider.create(plan({ ...good.over, resources: larger }), CALL),
      /as they had/,
      /--files/,
    )
    // The controls: the files of a snapshot whose memory is damaged, and one that is whole.
    for (const over of [{ ...cut.over, hasMemory: false }, good.over]) await destroy((await started(over)).id)
    await destroy(id)
    for (const { snapshot } of [good, cut, changed, old]) await snapshots.remove(snapshot, CALL)
    assert.deepEqual(left(), [])
  })

  test('STATE-15 a machine paused to disk whose memory was changed is refused and kept, and a stop keeps its files', async () => {
    const { toDisk } = stage.provider.pausing ?? {}
    const { stopping } = stage.provider
    assert.ok(toDisk && stopping)
    const asked = plan()
    const created = await stage.provider.create(asked, CALL)
    const guest = stage.provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    await writeFile(guest, '/home/user/file', Buffer.from('kept'))
    const { sandboxId: id } = asked
    assert.ok((await toDisk.save(id, CALL)).savedBytes > 1_000_000)
    await flip(id)
    await refused(toDisk.restore(asked, CALL), /the content of memory has changed/, /agentpod stop/)
    assert.equal((await stage.provider.inspect(id, CALL)).state, 'paused')
    await flip(id)
    // The control: with the former byte it continues.
    const again = stage.provider.open((await toDisk.restore(asked, CALL)).handle)
    assert.equal(await contentOf(again, '/home/user/file'), 'kept')
    await toDisk.save(id, CALL)
    await stopping.stop(id, CALL)
    const started = stage.provider.open((await stopping.start(asked, CALL)).handle)
    await started.configure({ ...INIT, env: created.env }, CALL)
    assert.equal(await contentOf(started, '/home/user/file'), 'kept')
    await destroy(id)
    assert.deepEqual(left(), [])
  })

  test('PROV-12 QEMU that is missing or too old, and a kernel that does not boot, are named with a way out', async () => {
    const directory = join(stage.home, 'tmp')
    const old = join(directory, 'old-qemu')
    writeFileSync(old, '#!/bin/sh\necho "QEMU emulator version 5.2.0 (Debian)"\n')
    chmodSync(old, 0o755)
    const kernel = join(directory, 'kernel')
    cpSync(stage.files.kernel, kernel, { recursive: true })
    writeFileSync(join(kernel, 'vmlinuz'), Buffer.alloc(1 << 20, 'no kernel'))
    for (const [files, message, hint] of [
      [{ qemu: '/nowhere/qemu' }, /QEMU is not installed/, /provider setup qemu/],
      [{ qemu: old }, /QEMU is of version 5\.2; virtual machines need 7\.2/, /AGENTPOD_QEMU/],
      [{ kernel: '/nowhere' }, /no kernel for virtual machines/, /provider setup qemu/],
      [{ kernel }, /a virtual machine did not boot/, /logs\/podhost.log/],
    ] as const) {
      const other = await openQemu(files)
      await refused(
        other.provider.create({ ...plan(), root: other.root }, { timeoutMs: 250_000 }),
        message,
        hint,
      )
      assert.deepEqual(readdirSync(join(other.home, 'sandboxes')), [])
      await other.close()
    }
  })
})
