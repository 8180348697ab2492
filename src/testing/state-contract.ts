/** The part of the provider contract about pausing, stopping, snapshots and copies. */
import assert from 'node:assert/strict'
import type { Capabilities } from '../core/capability.ts'
import {
  CONTRACT_CALL,
  type ContractCase,
  type ContractContext,
  contentOf,
  NEEDS,
  pausingOf,
  rejectsWith,
  runCommand,
  snapshotsFor,
  stoppingOf,
  writeFile,
} from './contract-context.ts'

const FILE = '/home/user/kept'
const freezer = NEEDS.pausing
const keeper = NEEDS.snapshots
const stoppedKeeper = (capabilities: Capabilities): string | undefined =>
  keeper(capabilities) ?? NEEDS.stopping(capabilities)

/** A state in which every provider can take a snapshot, with or without freezing. */
async function stoppedWithFile(ctx: ContractContext): Promise<ReturnType<ContractContext['plan']>> {
  const plan = ctx.plan()
  const { id, guest } = await ctx.started(plan)
  await writeFile(guest, FILE, Buffer.from('before'))
  await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
  return plan
}

export const STATE_CONTRACT: readonly ContractCase[] = [
  {
    name: 'STATE-1 a paused sandbox keeps its memory, answers nothing, and continues when it is resumed',
    needs: freezer,
    async run(ctx) {
      const { id, guest } = await ctx.started()
      await writeFile(guest, FILE, Buffer.from('here'))
      await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
      await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'paused' })
      const listed = await ctx.provider.list(ctx.world.owner, CONTRACT_CALL)
      assert.deepEqual(
        listed.map(({ observed }) => observed),
        [{ state: 'paused' }],
      )
      const deadlineAt = ctx.world.now() + 600_000
      await pausingOf(ctx.provider).resume(id, deadlineAt, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), await ctx.running(deadlineAt))
      assert.equal(await contentOf(guest, FILE), 'here')
      assert.equal((await runCommand(guest, 'echo', ['alive'])).stdout, 'alive\n')
      await pausingOf(ctx.provider).resume(id, deadlineAt + 1, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), await ctx.running(deadlineAt + 1))
    },
  },
  {
    name: 'STATE-1 no deadline runs while a sandbox is paused, and a paused one can be destroyed',
    needs: freezer,
    async run(ctx) {
      const { id, guest } = await ctx.started({ deadlineAt: ctx.world.now() + 1500 })
      await guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, CONTRACT_CALL)
      await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
      await ctx.world.pass(1500 + ctx.world.graceMs)
      assert.deepEqual(await ctx.inspect(id), { state: 'paused' })
      await ctx.provider.destroy(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'absent' })
    },
  },
  {
    name: 'STATE-15 a sandbox that is paused to disk has no processes, and continues with its memory, files and deadline',
    needs: NEEDS.pausingToDisk,
    async run(ctx) {
      const plan = ctx.plan()
      const { id, guest } = await ctx.started(plan)
      await writeFile(guest, FILE, Buffer.from('here'))
      const { save, restore } = pausingOf(ctx.provider).toDisk ?? assert.fail('it has no toDisk')
      const saved = await save(id, CONTRACT_CALL)
      assert.ok(saved.savedBytes > 0)
      assert.deepEqual(await save(id, CONTRACT_CALL), saved)
      await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'paused', ...saved })
      const later = { ...plan, deadlineAt: ctx.world.now() + 600_000 }
      const { handle } = await restore(later, CONTRACT_CALL)
      assert.deepEqual((await restore(later, CONTRACT_CALL)).handle, handle)
      assert.deepEqual(await ctx.inspect(id), await ctx.running(later.deadlineAt))
      const again = ctx.provider.open(handle)
      try {
        assert.equal(await contentOf(again, FILE), 'here')
        assert.equal((await runCommand(again, 'echo', ['alive'])).stdout, 'alive\n')
      } finally {
        again.close()
      }
      // A paused one can be saved too, and a saved one stopped and destroyed.
      await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
      await save(id, CONTRACT_CALL)
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'stopped' })
      await rejectsWith(restore(later, CONTRACT_CALL), 'conflict')
      await ctx.provider.destroy(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'absent' })
    },
  },
  {
    name: 'without a freezer, a snapshot of a running sandbox is unsupported, and the sandbox is not changed',
    needs: (capabilities) => keeper(capabilities) ?? NEEDS.noPausing(capabilities),
    async run(ctx) {
      const { id, guest } = await ctx.started()
      await rejectsWith(ctx.snapshot(id), 'unsupported', 'snapshot.live_unsupported')
      assert.equal((await ctx.inspect(id)).state, 'running')
      assert.equal((await runCommand(guest, 'echo', ['alive'])).stdout, 'alive\n')
    },
  },
  {
    name: 'STATE-4 at its deadline a sandbox is paused, as requested',
    needs: (capabilities) => freezer(capabilities) ?? NEEDS.deadlines(capabilities),
    async run(ctx) {
      const { id } = await ctx.started(
        { deadlineAt: ctx.world.now() + 1000, whenOver: 'pause' },
        { lease: { remainingMs: 0, idleMs: 0 } },
      )
      await ctx.world.pass(1000 + ctx.world.graceMs)
      assert.deepEqual(await ctx.inspect(id), { state: 'paused' })
    },
  },
  {
    name: 'STATE-4 at its deadline a sandbox is stopped, as requested, and its files are kept',
    needs: (capabilities) => NEEDS.stopping(capabilities) ?? NEEDS.deadlines(capabilities),
    async run(ctx) {
      const plan = ctx.plan({ deadlineAt: ctx.world.now() + 2000, whenOver: 'stop' })
      const { id, guest } = await ctx.started(plan, { lease: { remainingMs: 0, idleMs: 0 } })
      await writeFile(guest, FILE, Buffer.from('kept'))
      await ctx.world.pass(2000 + ctx.world.graceMs)
      assert.deepEqual(await ctx.inspect(id), { state: 'stopped' })
      const again = await ctx.startedAgain({ ...plan, deadlineAt: ctx.world.now() + 600_000 })
      assert.equal(await contentOf(again, FILE), 'kept')
    },
  },
  {
    name: 'STATE-3 a stopped sandbox keeps its files and nothing else, and starts again, any number of times',
    needs: NEEDS.stopping,
    async run(ctx) {
      const plan = await stoppedWithFile(ctx)
      await stoppingOf(ctx.provider).stop(plan.sandboxId, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(plan.sandboxId), { state: 'stopped' })
      for (const round of ['one', 'two']) {
        const guest = await ctx.startedAgain(plan)
        await stoppingOf(ctx.provider).start(plan, CONTRACT_CALL)
        assert.equal((await ctx.inspect(plan.sandboxId)).state, 'running')
        assert.equal(await contentOf(guest, FILE), round === 'one' ? 'before' : 'one')
        await writeFile(guest, FILE, Buffer.from(round))
        await stoppingOf(ctx.provider).stop(plan.sandboxId, CONTRACT_CALL)
      }
    },
  },
  {
    name: 'stop and start of an unknown sandbox are not_found',
    needs: NEEDS.stopping,
    async run(ctx) {
      const plan = ctx.plan()
      await rejectsWith(stoppingOf(ctx.provider).stop(plan.sandboxId, CONTRACT_CALL), 'not_found')
      await rejectsWith(stoppingOf(ctx.provider).start(plan, CONTRACT_CALL), 'not_found')
    },
  },
  {
    name: 'STATE-5 a snapshot of a running sandbox has its files of that moment, and the sandbox keeps running',
    needs: (capabilities) => keeper(capabilities) ?? freezer(capabilities),
    async run(ctx) {
      const { id, guest } = await ctx.started()
      await writeFile(guest, FILE, Buffer.from('then'))
      const snapshot = await ctx.snapshot(id)
      await writeFile(guest, FILE, Buffer.from('now'))
      assert.equal(await contentOf(guest, FILE), 'now')
      const copies = await Promise.all([ctx.started({ snapshot }), ctx.started({ snapshot })])
      for (const copy of copies) assert.equal(await contentOf(copy.guest, FILE), 'then')
      await writeFile(copies[0].guest, FILE, Buffer.from('mine'))
      assert.equal(await contentOf(copies[1].guest, FILE), 'then', 'copies share nothing')
      assert.equal(await contentOf(guest, FILE), 'now')
    },
  },
  {
    name: 'STATE-5 a snapshot of a stopped sandbox outlives it, and its copies outlive the snapshot',
    needs: stoppedKeeper,
    async run(ctx) {
      const plan = await stoppedWithFile(ctx)
      const snapshot = await ctx.snapshot(plan.sandboxId)
      await ctx.provider.destroy(plan.sandboxId, CONTRACT_CALL)
      const { guest } = await ctx.started({ snapshot })
      await snapshotsFor(ctx.provider).remove(snapshot, CONTRACT_CALL)
      await snapshotsFor(ctx.provider).remove(snapshot, CONTRACT_CALL)
      assert.equal(await contentOf(guest, FILE), 'before')
    },
  },
  {
    name: 'a snapshot is listed for its owner only, and a second request finds the first',
    needs: stoppedKeeper,
    async run(ctx) {
      const plan = await stoppedWithFile(ctx)
      const snapshot = await ctx.snapshot(plan.sandboxId)
      await ctx.snapshot(plan.sandboxId, snapshot)
      const keep = snapshotsFor(ctx.provider)
      assert.deepEqual(await keep.list(ctx.world.owner, CONTRACT_CALL), [snapshot])
      assert.deepEqual(await keep.list(ctx.world.otherOwner, CONTRACT_CALL), [])
    },
  },
  {
    name: 'a create from an unknown snapshot fails',
    needs: keeper,
    async run(ctx) {
      const plan = ctx.plan({ snapshot: ctx.world.newSnapshotId() })
      await rejectsWith(ctx.provider.create(plan, CONTRACT_CALL), 'not_found')
      assert.deepEqual(await ctx.inspect(plan.sandboxId), { state: 'absent' })
      await rejectsWith(ctx.snapshot(plan.sandboxId), 'not_found')
    },
  },
]
