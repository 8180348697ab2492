/** A Docker daemon that fails in the middle of something, and things that change behind our back. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAgentPodError } from '../../src/core/error.ts'
import type { Guest } from '../../src/core/guest.ts'
import { newSandboxId, newSnapshotId, type SandboxId } from '../../src/core/id.ts'
import type { Created, CreatePlan, Provider, RootRef, Snapshots } from '../../src/core/provider.ts'
import { resolveResources } from '../../src/core/resources.ts'
import { dockerProvider } from '../../src/providers/docker/provider.ts'
import {
  contentOf,
  HOUR_MS,
  INIT,
  readFile,
  rejectsWith,
  runCommand,
  writeFile,
} from '../../src/testing/contract-context.ts'
import { systemRandom } from '../../src/util/random.ts'
import { CuttingProxy } from '../support/cutting-proxy.ts'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { type DockerStage, openDocker, PODD } from '../support/docker-provider.ts'
import { tarOf } from '../support/tar-bytes.ts'

const CALL = { timeoutMs: 60_000 }
const FILE = '/home/user/file'

describe('faults of Docker', { skip: NO_DOCKER, timeout: 600_000 }, () => {
  let stage: DockerStage
  let proxy: CuttingProxy
  /** The provider behind the proxy. */
  let cut: Provider

  before(async () => {
    stage = await openDocker()
    const socket = join(stage.daemon.directory, 'proxy.sock')
    proxy = await CuttingProxy.open(socket, stage.daemon.socket)
    cut = dockerProvider({
      env: { ...stage.daemon.env, DOCKER_HOST: `unix://${socket}` },
      poddFile: PODD,
      owner: stage.owner,
    })
  })

  after(async () => {
    cut.close()
    await proxy.close()
    await stage.close()
  })

  const plan = (over: Partial<CreatePlan> = {}): CreatePlan => ({
    sandboxId: newSandboxId(systemRandom),
    owner: stage.owner,
    hostname: 'fault',
    root: stage.root,
    resources: resolveResources({ memoryMib: 256, pids: 64, tmpMib: 16 }),
    required: [],
    deadlineAt: Date.now() + HOUR_MS,
    whenOver: 'destroy',
    mounts: [],
    ...over,
  })

  const started = async (created: Created, provider = stage.provider): Promise<Guest> => {
    const guest = provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    return guest
  }

  const snapshots = (): Snapshots => {
    assert.ok(stage.provider.snapshots)
    return stage.provider.snapshots
  }

  const nothingIsLeft = async (): Promise<void> => {
    assert.deepEqual(await stage.provider.list(stage.owner, CALL), [])
    assert.deepEqual(await snapshots().list(stage.owner, CALL), [])
    assert.equal(stage.daemon.docker('ps', '-aq'), '')
  }

  for (const step of ['/containers/create', '/archive', '/start'])
    test(`PROV-6 a lost answer of ${step} leaves nothing, and the next create works`, async () => {
      const wanted = plan()
      proxy.lose(new RegExp(step))
      await rejectsWith(cut.create(wanted, CALL), 'unavailable', 'docker.lost')
      assert.deepEqual(await stage.provider.inspect(wanted.sandboxId, CALL), { state: 'absent' })
      const guest = await started(await cut.create(wanted, CALL), cut)
      assert.equal((await runCommand(guest, 'echo', ['here'])).stdout, 'here\n')
      guest.close()
      await cut.destroy(wanted.sandboxId, CALL)
      await nothingIsLeft()
    })

  test('PROV-6 a create that lost every answer, and could undo nothing, is found by the next one', async () => {
    const wanted = plan()
    proxy.lose(/ \/v[\d.]+\/containers\//, 100)
    await rejectsWith(cut.create(wanted, CALL), 'unavailable')
    proxy.lose(/nothing/)
    assert.equal((await stage.provider.list(stage.owner, CALL)).length, 1)
    const guest = await started(await cut.create(wanted, CALL), cut)
    assert.equal((await runCommand(guest, 'echo', ['here'])).stdout, 'here\n')
    guest.close()
    await cut.destroy(wanted.sandboxId, CALL)
    await nothingIsLeft()
  })

  test('PROV-6 lost answers of stop, start, pause, resume, snapshot and destroy are retried, and each happens once', async () => {
    const wanted = plan()
    const { sandboxId } = wanted
    const guest = await started(await cut.create(wanted, CALL), cut)
    await writeFile(guest, FILE, Buffer.from('kept'))
    const again = async (request: RegExp, work: () => Promise<unknown>): Promise<void> => {
      const before = proxy.cuts
      proxy.lose(request)
      await rejectsWith(work(), 'unavailable', 'docker.lost')
      assert.equal(proxy.cuts, before + 1)
      await work()
    }
    assert.ok(cut.pausing && cut.stopping && cut.snapshots)
    const { pausing, stopping, snapshots: keeper } = cut
    await again(/\/pause/, () => pausing.pause(sandboxId, CALL))
    await again(/\/unpause/, () => pausing.resume(sandboxId, 0, CALL))
    const snapshot = newSnapshotId(systemRandom)
    await again(/\/commit/, () => keeper.create(snapshot, sandboxId, stage.owner, CALL))
    assert.deepEqual(await keeper.list(stage.owner, CALL), [snapshot])
    await again(/\/rename/, () => stopping.stop(sandboxId, CALL))
    assert.deepEqual(await cut.inspect(sandboxId, CALL), { state: 'stopped' })
    await again(/\/start/, () => stopping.start(wanted, CALL))
    assert.equal((await cut.inspect(sandboxId, CALL)).state, 'running')
    await again(/\/kill/, () => stopping.stop(sandboxId, CALL))
    await again(/DELETE .*\/images/, () => keeper.remove(snapshot, CALL))
    await again(/DELETE .*\/containers/, () => cut.destroy(sandboxId, CALL))
    await nothingIsLeft()
  })

  test('PROV-6 a broken stream to podd is dialled again', async () => {
    const wanted = plan()
    const guest = await started(await stage.provider.create(wanted, CALL))
    const connects = (): string[] =>
      execFileSync('pgrep', ['-f', 'podd connect @agentpod'], { encoding: 'utf8' }).trim().split('\n')
    const inside = connects().filter((pid) =>
      groupOf(pid).includes(stage.daemon.directory.split('/').at(-1) ?? ''),
    )
    assert.equal(inside.length, 1)
    for (const pid of inside) process.kill(Number(pid), 'SIGKILL')
    // Calls in progress, or about to use the broken stream, get an error; nothing is done twice.
    await until(() =>
      runCommand(guest, 'echo', ['again']).then(({ stdout }) => stdout === 'again\n', isUnavailable),
    )
    guest.close()
    await stage.provider.destroy(wanted.sandboxId, CALL)
  })

  test('PROV-6 a container that another program removed is absent, and one that does not answer is not', async () => {
    const [mine, other] = [plan(), plan()]
    const created = await stage.provider.create(mine, CALL)
    await stage.provider.create(other, CALL)
    stage.daemon.docker('rm', '-f', String(created.handle.data['container']))
    assert.deepEqual(await stage.provider.inspect(mine.sandboxId, CALL), { state: 'absent' })
    assert.equal((await stage.provider.inspect(other.sandboxId, CALL)).state, 'running')
    await rejectsWith(stage.provider.open(created.handle).health({ timeoutMs: 5000 }), 'unavailable')
    await stage.provider.destroy(mine.sandboxId, CALL)
    await stage.provider.destroy(other.sandboxId, CALL)
  })

  test('PROV-6 a podd volume that another program removed is filled again', async () => {
    const volumes = stage.daemon.docker(
      'volume',
      'ls',
      '-q',
      '--filter',
      `label=agentpod.owner=${stage.owner}`,
    )
    assert.notEqual(volumes, '')
    stage.daemon.docker('volume', 'rm', ...volumes.split('\n'))
    const wanted = plan()
    const guest = await started(await stage.provider.create(wanted, CALL))
    assert.equal((await runCommand(guest, 'echo', ['here'])).stdout, 'here\n')
    guest.close()
    await stage.provider.destroy(wanted.sandboxId, CALL)
  })

  test('PROV-6 another server finds a sandbox by its labels alone and works with it', async () => {
    const wanted = plan()
    await started(await stage.provider.create(wanted, CALL))
    const other = dockerProvider({ env: stage.daemon.env, poddFile: PODD, owner: stage.owner })
    const [listed] = await other.list(stage.owner, CALL)
    assert.ok(listed)
    const guest = other.open(listed.handle)
    assert.equal((await runCommand(guest, 'echo', ['found'])).stdout, 'found\n')
    guest.close()
    await other.destroy(wanted.sandboxId, CALL)
    other.close()
    await nothingIsLeft()
  })

  test('at the end of its lease a sandbox whose files are to be kept is stopped, and starts again', async () => {
    const wanted = plan({ whenOver: 'stop' })
    const guest = await started(await stage.provider.create(wanted, CALL))
    await writeFile(guest, FILE, Buffer.from('kept'))
    await guest.lease?.renew({ remainingMs: 200, idleMs: 0 }, CALL)
    guest.close()
    await until(async () => (await stage.provider.inspect(wanted.sandboxId, CALL)).state === 'stopped')
    assert.ok(stage.provider.stopping)
    const again = await started(await stage.provider.stopping.start(wanted, CALL))
    assert.equal(await contentOf(again, FILE), 'kept')
    again.close()
    await stage.provider.destroy(wanted.sandboxId, CALL)
  })

  test('an image without a shell runs podd, and its commands fail by name', async () => {
    const archive = tarOf([{ name: 'hello', content: 'hi' }])
    const digest = createHash('sha256').update(archive).digest('hex')
    const { layers } = stage.provider
    assert.ok(layers)
    await layers.import(digest, Readable.from([archive]), CALL)
    const wanted = plan({ root: layers.root([digest]) })
    const guest = await started(await stage.provider.create(wanted, CALL))
    assert.equal(await contentOf(guest, '/hello'), 'hi')
    await assert.rejects(runCommand(guest, '/bin/sh', ['-c', 'true']), /\/bin\/sh|not found|no such/i)
    guest.close()
    await stage.provider.destroy(wanted.sandboxId, CALL)
    await layers.remove(digest, CALL)
  })

  test('content that does not match its digest makes no layer', async () => {
    const { layers } = stage.provider
    assert.ok(layers)
    const wrong = 'a'.repeat(64)
    await rejectsWith(layers.import(wrong, createReadStream(stage.rootFile), CALL), 'data_loss')
    assert.equal(await layers.has(wrong, CALL), false)
    const before = stage.daemon.docker('images', '-aq')
    await rejectsWith(layers.import(wrong, Readable.from([Buffer.from('no tar')]), CALL), 'data_loss')
    assert.equal(stage.daemon.docker('images', '-aq'), before)
  })

  test('a sandbox that fills its /tmp keeps running, and so does one that uses up its memory', async () => {
    const wanted = plan()
    const guest = await started(await stage.provider.create(wanted, CALL))
    const full = await runCommand(guest, 'dd', ['if=/dev/zero', 'of=/tmp/full', 'bs=1M', 'count=64'])
    assert.match(full.stderr, /No space left/)
    const eaten = await runCommand(guest, 'perl', ['-e', 'my $x = "x" x (1 << 30); sleep 1'])
    assert.notEqual(eaten.exitCode, 0)
    assert.equal((await runCommand(guest, 'echo', ['alive'])).stdout, 'alive\n')
    guest.close()
    await stage.provider.destroy(wanted.sandboxId, CALL)
  })

  test('a snapshot of a copy of a snapshot is exported and imported as it was', async () => {
    const wanted = plan()
    const guest = await started(await stage.provider.create(wanted, CALL))
    await writeFile(guest, FILE, Buffer.from('one'))
    await writeFile(guest, '/home/user/gone', Buffer.from('gone'))
    await runCommand(guest, 'sh', ['-c', 'mkdir /home/user/dir && echo old > /home/user/dir/old'])
    const [first, second, back] = [1, 2, 3].map(() => newSnapshotId(systemRandom))
    assert.ok(first && second && back)
    const { root } = await snapshots().create(first, wanted.sandboxId, stage.owner, CALL)
    const copy = plan({ snapshot: first })
    const inside = await started(await stage.provider.create(copy, CALL))
    await writeFile(inside, FILE, Buffer.from('two'))
    await runCommand(inside, 'sh', [
      '-c',
      'rm -r /home/user/gone /home/user/dir && mkdir /home/user/dir && ln -s x /home/user/link',
    ])
    await snapshots().create(second, copy.sandboxId, stage.owner, CALL)
    const packed = await snapshots().export(second, CALL)
    const kept = await snapshots().import(back, stage.owner, { ...packed, root }, CALL)
    assert.deepEqual(kept.root, root)
    const last = plan({ snapshot: back })
    const seen = await started(await stage.provider.create(last, CALL))
    assert.equal(await contentOf(seen, FILE), 'two')
    const listed = await runCommand(seen, 'ls', ['-A', '/home/user', '/home/user/dir'])
    assert.equal(listed.stdout, '/home/user:\ndir\nfile\nlink\n\n/home/user/dir:\n')
    for (const one of [guest, inside, seen]) one.close()
    for (const one of [wanted, copy, last]) await stage.provider.destroy(one.sandboxId, CALL)
    for (const id of [back, second, first]) await snapshots().remove(id, CALL)
    await nothingIsLeft()
  })

  test('a snapshot whose content was changed on its way is refused', async () => {
    const id = newSnapshotId(systemRandom)
    const packed = { digest: 'b'.repeat(64), content: Readable.from([Buffer.from('x')]), root: stage.root }
    await rejectsWith(snapshots().import(id, stage.owner, packed, CALL), 'data_loss')
    assert.deepEqual(await snapshots().list(stage.owner, CALL), [])
  })

  test('an image that declares volumes gets none, so that a snapshot holds everything', async () => {
    stage.daemon.docker(
      'import',
      '--change',
      'VOLUME /data',
      '--change',
      'ENV A=b',
      stage.rootFile,
      'with-volume:1',
    )
    assert.ok(stage.provider.images)
    const image = await stage.provider.images.ensure('with-volume:1', () => undefined, CALL)
    assert.equal(image.env['A'], 'b')
    const wanted = plan({ root: image.root as RootRef })
    const created = await stage.provider.create(wanted, CALL)
    assert.equal(created.env['A'], 'b')
    const guest = await started(created)
    await runCommand(guest, 'sh', ['-c', 'mkdir -p /data && echo in > /data/file'], { user: 'root' })
    const snapshot = newSnapshotId(systemRandom)
    await snapshots().create(snapshot, wanted.sandboxId, stage.owner, CALL)
    const copy = plan({ root: image.root, snapshot })
    const inside = await started(await stage.provider.create(copy, CALL))
    assert.equal((await readFile(inside, '/data/file')).toString(), 'in\n')
    for (const one of [guest, inside]) one.close()
    for (const one of [wanted, copy]) await stage.provider.destroy(one.sandboxId, CALL)
    await snapshots().remove(snapshot, CALL)
  })

  test('PROV-6 a daemon killed while sandboxes are created, used and destroyed leaves nothing in the end', async () => {
    const plans = Array.from({ length: 6 }, () => plan())
    const work = plans.map(async (one, index) => {
      await sleep(index * 60)
      const created = await stage.provider.create(one, CALL)
      if (index === 0) await stage.provider.destroy(one.sandboxId, CALL)
      else await started(created)
    })
    const settled = Promise.allSettled(work)
    await sleep(700)
    await stage.daemon.kill()
    for (const one of await settled)
      if (one.status === 'rejected')
        assert.equal((one.reason as { code?: string }).code, 'unavailable', String(one.reason))
    await rejectsWith(stage.provider.inspect(plans[1]?.sandboxId as SandboxId, CALL), 'unavailable')
    await rejectsWith(stage.provider.list(stage.owner, CALL), 'unavailable')
    await stage.daemon.start()
    for (const one of plans) {
      const { state } = await stage.provider.inspect(one.sandboxId, CALL)
      assert.ok(['running', 'exited', 'absent'].includes(state), state)
      await stage.provider.destroy(one.sandboxId, CALL)
    }
    await nothingIsLeft()
  })

  test('clear leaves nothing of the owner', async () => {
    await stage.provider.clear(CALL)
    const filter = ['--filter', 'label=agentpod.owner']
    assert.equal(stage.daemon.docker('ps', '-aq', ...filter), '')
    assert.equal(stage.daemon.docker('images', '-aq', ...filter), '')
    assert.equal(stage.daemon.docker('volume', 'ls', '-q', ...filter), '')
  })
})

test('a sandbox that fills the daemon’s disk hurts others in no other way, and all is well when it is gone', {
  skip: NO_DOCKER,
  timeout: 240_000,
}, async () => {
  const stage = await openDocker({ diskMib: 400 })
  try {
    const make = async (): Promise<{ id: SandboxId; guest: Guest }> => {
      const plan: CreatePlan = {
        sandboxId: newSandboxId(systemRandom),
        owner: stage.owner,
        hostname: 'full',
        root: stage.root,
        resources: resolveResources({ memoryMib: 256, pids: 64, files: 1024 }),
        required: [],
        deadlineAt: Date.now() + HOUR_MS,
        whenOver: 'destroy',
        mounts: [],
      }
      const created = await stage.provider.create(plan, CALL)
      const guest = stage.provider.open(created.handle)
      await guest.configure({ ...INIT, env: created.env }, CALL)
      return { id: plan.sandboxId, guest }
    }
    const [greedy, neighbour] = [await make(), await make()]
    // To the last block: a create needs little.
    const fill =
      'cat /dev/zero > /home/user/full; sync; i=0; while echo x > /home/user/$i; do i=$((i + 1)); done; sync'
    await runCommand(greedy.guest, 'sh', ['-c', fill])
    const filled = await runCommand(greedy.guest, 'sh', ['-c', `${fill}; exit 0`])
    assert.match(filled.stderr, /No space left/)
    for (const { guest } of [greedy, neighbour])
      assert.equal((await runCommand(guest, 'echo', ['here'])).stdout, 'here\n')
    await assert.rejects(make(), (error) => isAgentPodError(error) && error.reason === 'disk.full')
    assert.equal(
      (await stage.provider.list(stage.owner, CALL)).length,
      2,
      'the failed create has left nothing',
    )
    greedy.guest.close()
    await stage.provider.destroy(greedy.id, CALL)
    const later = await make()
    assert.equal((await runCommand(later.guest, 'echo', ['again'])).stdout, 'again\n')
    for (const { guest } of [neighbour, later]) guest.close()
  } finally {
    await stage.close()
  }
})

function isUnavailable(error: unknown): false {
  assert.ok(isAgentPodError(error, 'unavailable'), String(error))
  return false
}

function groupOf(pid: string): string {
  return execFileSync('cat', [`/proc/${pid}/cgroup`], { encoding: 'utf8' })
}

async function until(done: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 200; i++) {
    if (await done()) return
    await sleep(50)
  }
  throw new Error('it did not happen')
}
