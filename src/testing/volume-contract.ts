/** The part of the provider contract about volumes and other roots that a sandbox mounts. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import type { Capabilities } from '../core/capability.ts'
import { parseVolumeId, type VolumeId } from '../core/id.ts'
import type { Mount } from '../core/provider.ts'
import { sha256Hex } from '../util/sha256.ts'
import {
  CONTRACT_CALL,
  type ContractCase,
  contentOf,
  NEEDS,
  pausingOf,
  rejectsWith,
  snapshotsFor,
  stoppingOf,
  volumesOf,
  writeFile,
} from './contract-context.ts'

const PATH = '/srv/volume'
const FILE = `${PATH}/file`

function at(id: VolumeId, path = PATH, isReadOnly = false): { mounts: Mount[] } {
  return { mounts: [{ kind: 'volume', id, path, isReadOnly }] }
}

const both =
  (...needs: ((capabilities: Capabilities) => string | undefined)[]) =>
  (capabilities: Capabilities): string | undefined =>
    needs.map((need) => need(capabilities)).find((reason) => reason !== undefined)

export const VOLUME_CONTRACT: readonly ContractCase[] = [
  {
    name: 'the group volumes is there exactly if the capability says so',
    async run({ provider }) {
      const { volumes } = await provider.capabilities(CONTRACT_CALL)
      assert.equal(provider.volumes !== undefined, volumes)
    },
  },
  {
    name: 'VOL-8 a provider without volumes refuses to mount one, and makes nothing',
    needs: NEEDS.noVolumes,
    async run(ctx) {
      const id = parseVolumeId(`vol${'0'.repeat(16)}`)
      await rejectsWith(ctx.create(at(id)), 'unsupported')
      assert.deepEqual(await ctx.provider.list(ctx.world.owner, CONTRACT_CALL), [])
    },
  },
  {
    name: 'VOL-1 a volume keeps its files when its sandbox is destroyed, and the next sandbox finds them',
    needs: NEEDS.volumes,
    async run(ctx) {
      const id = await ctx.volume()
      const first = await ctx.started(at(id))
      await writeFile(first.guest, FILE, Buffer.from('kept'))
      await ctx.provider.destroy(first.id, CONTRACT_CALL)
      const { guest } = await ctx.started(at(id, '/srv/elsewhere'))
      assert.equal(await contentOf(guest, '/srv/elsewhere/file'), 'kept')
      const { usedBytes } = await volumesOf(ctx.provider).stats(id, CONTRACT_CALL)
      assert.ok(usedBytes > 0, String(usedBytes))
    },
  },
  {
    name: 'VOL-1 two sandboxes have one volume at the same time, and one of them may only read',
    needs: NEEDS.volumes,
    async run(ctx) {
      const id = await ctx.volume()
      const writer = await ctx.started(at(id))
      const reader = await ctx.started(at(id, PATH, true))
      await writeFile(writer.guest, FILE, Buffer.from('one'))
      assert.equal(await contentOf(reader.guest, FILE), 'one')
      await assert.rejects(writeFile(reader.guest, FILE, Buffer.from('two')))
      assert.equal(await contentOf(writer.guest, FILE), 'one')
    },
  },
  {
    name: 'VOL-2 a sandbox that is stopped and started has its volume again',
    needs: both(NEEDS.volumes, NEEDS.stopping),
    async run(ctx) {
      const id = await ctx.volume()
      const plan = ctx.plan(at(id))
      const { guest } = await ctx.started(plan)
      await writeFile(guest, FILE, Buffer.from('kept'))
      await stoppingOf(ctx.provider).stop(plan.sandboxId, CONTRACT_CALL)
      assert.equal(await contentOf(await ctx.startedAgain(plan), FILE), 'kept')
    },
  },
  {
    name: 'VOL-3 a volume is not removed while a sandbox that is running, paused or stopped has it',
    needs: both(NEEDS.volumes, NEEDS.stopping, NEEDS.pausing),
    async run(ctx) {
      const id = await ctx.volume()
      const sandbox = await ctx.started(at(id))
      const remove = (): Promise<void> => volumesOf(ctx.provider).remove(id, CONTRACT_CALL)
      await rejectsWith(remove(), 'conflict', 'volume.used')
      await pausingOf(ctx.provider).pause(sandbox.id, CONTRACT_CALL)
      await rejectsWith(remove(), 'conflict', 'volume.used')
      await stoppingOf(ctx.provider).stop(sandbox.id, CONTRACT_CALL)
      await rejectsWith(remove(), 'conflict', 'volume.used')
      await ctx.provider.destroy(sandbox.id, CONTRACT_CALL)
      await remove()
      await remove()
      await rejectsWith(ctx.create(at(id)), 'not_found')
    },
  },
  {
    name: 'VOL-4 the files of a volume are no part of a snapshot',
    needs: both(NEEDS.volumes, NEEDS.snapshots, NEEDS.stopping),
    async run(ctx) {
      const id = await ctx.volume()
      const { id: sandbox, guest } = await ctx.started(at(id))
      await writeFile(guest, FILE, Buffer.from('left out'))
      await writeFile(guest, '/home/user/own', Buffer.from('own'))
      await stoppingOf(ctx.provider).stop(sandbox, CONTRACT_CALL)
      const snapshot = await ctx.snapshot(sandbox)
      const copy = await ctx.started({ snapshot })
      assert.equal(await contentOf(copy.guest, FILE), 'not_found')
      assert.equal(await contentOf(copy.guest, '/home/user/own'), 'own')
      const again = await ctx.started({ snapshot, ...at(id) })
      assert.equal(await contentOf(again.guest, FILE), 'left out')
    },
  },
  {
    name: 'a second create of a volume finds the first, and list finds it by its owner alone',
    needs: NEEDS.volumes,
    async run(ctx) {
      const id = await ctx.volume()
      const volumes = volumesOf(ctx.provider)
      await volumes.create(id, ctx.world.owner, 0, CONTRACT_CALL)
      assert.deepEqual(await volumes.list(ctx.world.owner, CONTRACT_CALL), [id])
      assert.deepEqual(await volumes.list(ctx.world.otherOwner, CONTRACT_CALL), [])
    },
  },
  {
    name: 'a sandbox cannot mount a volume of another owner, or one that does not exist',
    needs: NEEDS.volumes,
    async run(ctx) {
      const id = await ctx.volume({ owner: ctx.world.otherOwner })
      await rejectsWith(ctx.create(at(id)), 'not_found')
      await volumesOf(ctx.provider).remove(id, CONTRACT_CALL)
      await rejectsWith(ctx.create(at(id)), 'not_found')
    },
  },
  {
    name: 'another root is mounted read-only, and its layers and snapshots are not removed meanwhile',
    needs: both(NEEDS.rootMounts, NEEDS.snapshots, NEEDS.layers, NEEDS.stopping),
    async run(ctx) {
      const { layers } = ctx.provider
      assert.ok(layers)
      const { id, guest } = await ctx.started()
      await writeFile(guest, '/home/user/made', Buffer.from('made'))
      await stoppingOf(ctx.provider).stop(id, CONTRACT_CALL)
      const snapshot = await ctx.snapshot(id)
      // A tar archive without entries.
      const empty = Buffer.alloc(1024)
      const digest = sha256Hex(empty)
      await layers.import(digest, Readable.from([empty], { objectMode: false }), CONTRACT_CALL)
      const root = { ...layers.root([digest]), over: [snapshot] }
      const build = await ctx.started({ mounts: [{ kind: 'root', root, path: PATH }] })
      assert.equal(await contentOf(build.guest, `${PATH}/home/user/made`), 'made')
      await assert.rejects(writeFile(build.guest, `${PATH}/home/user/made`, Buffer.from('changed')))
      const remove = snapshotsFor(ctx.provider).remove(snapshot, CONTRACT_CALL)
      await rejectsWith(remove, 'conflict', 'snapshot.used')
      await rejectsWith(layers.remove(digest, CONTRACT_CALL), 'conflict')
      await ctx.provider.destroy(build.id, CONTRACT_CALL)
      await layers.remove(digest, CONTRACT_CALL)
    },
  },
]
