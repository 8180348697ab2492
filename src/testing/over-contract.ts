/** The part of the provider contract about snapshots that many sandboxes share. */
import assert from 'node:assert/strict'
import type { Capabilities } from '../core/capability.ts'
import type { Guest } from '../core/guest.ts'
import type { SnapshotId } from '../core/id.ts'
import type { RootRef } from '../core/provider.ts'
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

const FILE = '/home/user/changed'
const OTHER = '/home/user/removed'
const keeper = (capabilities: Capabilities): string | undefined =>
  NEEDS.snapshots(capabilities) ?? NEEDS.stopping(capabilities)

function rootOver(ctx: ContractContext, ...over: readonly SnapshotId[]): RootRef {
  return { ...ctx.world.root, over }
}

/** A snapshot of a sandbox that was itself created from snapshots. */
async function stepOver(
  ctx: ContractContext,
  over: readonly SnapshotId[],
  work: (guest: Guest) => Promise<unknown>,
): Promise<SnapshotId> {
  const { id, guest } = await ctx.started({ root: rootOver(ctx, ...over) })
  await work(guest)
  await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
  const snapshot = await ctx.snapshot(id)
  await ctx.provider.destroy(id, CONTRACT_CALL)
  return snapshot
}

async function firstStep(ctx: ContractContext): Promise<SnapshotId> {
  return stepOver(ctx, [], async (guest) => {
    await writeFile(guest, FILE, Buffer.from('one'))
    await writeFile(guest, OTHER, Buffer.from('other'))
  })
}

async function secondStep(ctx: ContractContext, first: SnapshotId): Promise<SnapshotId> {
  return stepOver(ctx, [first], async (guest) => {
    assert.equal(await contentOf(guest, FILE), 'one')
    await writeFile(guest, FILE, Buffer.from('two'))
    assert.equal((await runCommand(guest, 'rm', [OTHER])).exitCode, 0)
  })
}

export const OVER_CONTRACT: readonly ContractCase[] = [
  {
    name: 'many sandboxes can use a stack of snapshots, and none changes it',
    needs: keeper,
    async run(ctx) {
      const first = await firstStep(ctx)
      const second = await secondStep(ctx, first)
      const [one, two, below] = await Promise.all([
        ctx.started({ root: rootOver(ctx, first, second) }),
        ctx.started({ root: rootOver(ctx, first, second) }),
        ctx.started({ root: rootOver(ctx, first) }),
      ])
      for (const { guest } of [one, two]) {
        assert.equal(await contentOf(guest, FILE), 'two')
        assert.equal(await contentOf(guest, OTHER), 'not_found', 'what a snapshot removed is gone')
      }
      assert.equal(await contentOf(below.guest, FILE), 'one')
      assert.equal(await contentOf(below.guest, OTHER), 'other')
      await writeFile(one.guest, FILE, Buffer.from('mine'))
      await writeFile(one.guest, OTHER, Buffer.from('mine'))
      assert.equal(await contentOf(two.guest, FILE), 'two')
      assert.equal(await contentOf(two.guest, OTHER), 'not_found')
      const later = await ctx.started({ root: rootOver(ctx, first, second) })
      assert.equal(await contentOf(later.guest, FILE), 'two')
    },
  },
  {
    name: 'sandboxes over the same snapshot each have their own identity',
    needs: keeper,
    async run(ctx) {
      const first = await firstStep(ctx)
      const made = await Promise.all([1, 2].map(() => ctx.started({ root: rootOver(ctx, first) })))
      const said = await Promise.all(made.map(({ guest }) => runCommand(guest, 'cat', ['/etc/machine-id'])))
      // Without snapshots there is nothing to share.
      if (said.every(({ exitCode }) => exitCode === 0)) assert.notEqual(said[0]?.stdout, said[1]?.stdout)
    },
  },
  {
    name: 'a stopped sandbox over a snapshot starts again on both its files and the snapshot’s',
    needs: keeper,
    async run(ctx) {
      const first = await firstStep(ctx)
      const plan = ctx.plan({ root: rootOver(ctx, first) })
      const { id, guest } = await ctx.started(plan)
      await writeFile(guest, FILE, Buffer.from('mine'))
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      const again = await ctx.startedAgain(plan)
      assert.equal(await contentOf(again, FILE), 'mine')
      assert.equal(await contentOf(again, OTHER), 'other')
    },
  },
  {
    name: 'a snapshot of a sandbox over snapshots names them, counts only its own files, and a copy of it has all files',
    needs: keeper,
    async run(ctx) {
      const large = await stepOver(ctx, [], async (guest) => {
        await writeFile(guest, OTHER, Buffer.alloc(4 << 20, 'x'))
      })
      const { id, guest } = await ctx.started({ root: rootOver(ctx, large) })
      await writeFile(guest, FILE, Buffer.from('mine'))
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      const snapshot = await ctx.snapshot(id)
      const kept = await snapshotsFor(ctx.provider).create(snapshot, id, ctx.world.owner, CONTRACT_CALL)
      assert.deepEqual(kept.root, rootOver(ctx, large))
      assert.ok(kept.sizeBytes < 4 << 20, `${kept.sizeBytes} bytes`)
      const copy = await ctx.started({ snapshot, root: kept.root })
      assert.equal(await contentOf(copy.guest, FILE), 'mine')
      assert.equal((await contentOf(copy.guest, OTHER)).length, 4 << 20)
    },
  },
  {
    name: 'snapshots of other sandboxes can be added over a root, and below the files of a copy with another root',
    needs: keeper,
    async run(ctx) {
      const [first, extra, other] = [
        await firstStep(ctx),
        await stepOver(ctx, [], (guest) => writeFile(guest, '/home/user/extra/file', Buffer.from('extra'))),
        await stepOver(ctx, [], (guest) => writeFile(guest, '/home/user/other/file', Buffer.from('other'))),
      ]
      const { id, guest } = await ctx.started({ root: rootOver(ctx, first, extra) })
      assert.equal(await contentOf(guest, FILE), 'one')
      assert.equal(await contentOf(guest, '/home/user/extra/file'), 'extra')
      await writeFile(guest, FILE, Buffer.from('mine'))
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      const snapshot = await ctx.snapshot(id)
      const copy = await ctx.started({ snapshot, root: rootOver(ctx, first, extra, other) })
      assert.equal(await contentOf(copy.guest, FILE), 'mine')
      assert.equal(await contentOf(copy.guest, '/home/user/extra/file'), 'extra')
      assert.equal(await contentOf(copy.guest, '/home/user/other/file'), 'other')
    },
  },
  {
    name: 'a snapshot that a sandbox or another snapshot uses is not removed',
    needs: keeper,
    async run(ctx) {
      const first = await firstStep(ctx)
      const isUsed = (): Promise<void> =>
        rejectsWith(snapshotsFor(ctx.provider).remove(first, CONTRACT_CALL), 'conflict', 'snapshot.used')
      const { id } = await ctx.started({ root: rootOver(ctx, first) })
      await isUsed()
      if ((await ctx.provider.capabilities(CONTRACT_CALL)).pause !== 'none') {
        await pausingOf(ctx.provider).pause(id, CONTRACT_CALL)
        await isUsed()
      }
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      await isUsed()
      const second = await ctx.snapshot(id)
      await ctx.provider.destroy(id, CONTRACT_CALL)
      await isUsed()
      const { guest } = await ctx.started({ root: rootOver(ctx, first) })
      assert.equal(await contentOf(guest, FILE), 'one', 'a refusal has changed nothing')
      await snapshotsFor(ctx.provider).remove(second, CONTRACT_CALL)
      await isUsed()
    },
  },
  {
    name: 'a snapshot that is no longer used can be removed, and a create over a removed snapshot fails',
    needs: keeper,
    async run(ctx) {
      const first = await firstStep(ctx)
      const { id } = await ctx.started({ root: rootOver(ctx, first) })
      await ctx.provider.destroy(id, CONTRACT_CALL)
      await snapshotsFor(ctx.provider).remove(first, CONTRACT_CALL)
      const plan = ctx.plan({ root: rootOver(ctx, first) })
      await rejectsWith(ctx.provider.create(plan, CONTRACT_CALL), 'not_found', 'snapshot.absent')
      assert.deepEqual(await ctx.inspect(plan.sandboxId), { state: 'absent' })
      assert.deepEqual(await ctx.provider.list(ctx.world.owner, CONTRACT_CALL), [])
    },
  },
]
