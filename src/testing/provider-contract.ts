/**
 * What every provider must do, as named cases for any test runner. A case that a provider cannot run is
 * skipped with the reason.
 */
import assert from 'node:assert/strict'
import type { OwnerLabel, SandboxId } from '../core/id.ts'
import type { Created, Deadlines, Metering, Observed } from '../core/provider.ts'
import { LIMITED, type Limited } from '../core/resources.ts'
import {
  CONTRACT_CALL,
  type ContractCase,
  type ContractContext,
  contentOf,
  exitWithin,
  HOUR_MS,
  INIT,
  NEEDS,
  readFile,
  rejectsWith,
  runCommand,
  writeFile,
} from './contract-context.ts'
import { GUEST_CONTRACT } from './guest-contract.ts'
import { OVER_CONTRACT } from './over-contract.ts'
import { STATE_CONTRACT } from './state-contract.ts'
import { VOLUME_CONTRACT } from './volume-contract.ts'

const UNKNOWN_DIGEST = 'f'.repeat(64)

const EXPIRED: Observed = { state: 'exited', oomKilled: false, expired: true }

function deadlinesOf({ provider: { deadlines } }: ContractContext): Deadlines {
  assert.ok(deadlines, 'this provider holds no deadlines')
  return deadlines
}

function meteringOf({ provider: { metering } }: ContractContext): Metering {
  assert.ok(metering, 'this provider measures nothing')
  return metering
}

export const PROVIDER_CONTRACT: readonly ContractCase[] = [
  ...STATE_CONTRACT,
  ...OVER_CONTRACT,
  ...VOLUME_CONTRACT,
  ...GUEST_CONTRACT,
  {
    name: 'a sandbox is created, seen, listed and destroyed',
    async run(ctx) {
      const deadlineAt = ctx.world.now() + HOUR_MS
      const { handle, limits } = await ctx.create({ deadlineAt })
      const { sandboxId: id } = handle
      assert.deepEqual(Object.keys(limits).sort(), [...LIMITED].sort())
      const running = await ctx.running(deadlineAt)
      assert.deepEqual(await ctx.inspect(id), running)
      const listed = await ctx.provider.list(ctx.world.owner, CONTRACT_CALL)
      assert.deepEqual(listed, [{ handle, observed: running }])
      await ctx.provider.destroy(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'absent' })
      assert.deepEqual(await ctx.provider.list(ctx.world.owner, CONTRACT_CALL), [])
    },
  },
  {
    name: 'a handle can be stored as JSON',
    async run(ctx) {
      const { handle } = await ctx.create()
      const guest = ctx.provider.open(JSON.parse(JSON.stringify(handle)))
      await guest.health(CONTRACT_CALL)
      guest.close()
    },
  },
  {
    name: 'a second create with the same id finds the first one',
    async run(ctx) {
      const plan = ctx.plan()
      const first = await ctx.provider.create(plan, CONTRACT_CALL)
      const guest = ctx.open(first)
      await guest.configure({ ...INIT, env: first.env }, CONTRACT_CALL)
      await writeFile(guest, '/tmp/mark', Buffer.from('one'))
      const second = await ctx.provider.create(plan, CONTRACT_CALL)
      assert.deepEqual(second.handle, first.handle)
      assert.equal(await contentOf(ctx.open(second), '/tmp/mark'), 'one')
      assert.equal((await ctx.provider.list(ctx.world.owner, CONTRACT_CALL)).length, 1)
    },
  },
  {
    name: 'BOX-7 destroy of a sandbox that is gone or never existed succeeds',
    async run(ctx) {
      const { handle } = await ctx.create()
      await ctx.provider.destroy(handle.sandboxId, CONTRACT_CALL)
      await ctx.provider.destroy(handle.sandboxId, CONTRACT_CALL)
      await ctx.provider.destroy(ctx.world.newId(), CONTRACT_CALL)
    },
  },
  {
    name: 'BOX-7 several destroys at once all resolve only when the sandbox is absent',
    async run(ctx) {
      const { id } = await ctx.started()
      const destroyAndLook = async (): Promise<Observed> => {
        await ctx.provider.destroy(id, CONTRACT_CALL)
        return ctx.inspect(id)
      }
      const seen = await Promise.all([destroyAndLook(), destroyAndLook(), destroyAndLook()])
      assert.deepEqual(seen, [{ state: 'absent' }, { state: 'absent' }, { state: 'absent' }])
    },
  },
  {
    name: 'an id can be used again after its sandbox was destroyed, with nothing of the old one in it',
    async run(ctx) {
      const { id, guest } = await ctx.started()
      await writeFile(guest, '/tmp/old', Buffer.from('old'))
      await ctx.provider.destroy(id, CONTRACT_CALL)
      const again = await ctx.started({ sandboxId: id })
      assert.equal(await contentOf(again.guest, '/tmp/old'), 'not_found')
    },
  },
  {
    name: 'list finds the owner’s sandboxes and none of another owner',
    async run(ctx) {
      const mine = await ctx.create()
      const theirs = await ctx.create({ owner: ctx.world.otherOwner })
      const ids = async (owner: OwnerLabel): Promise<SandboxId[]> =>
        (await ctx.provider.list(owner, CONTRACT_CALL)).map(({ handle }) => handle.sandboxId)
      assert.deepEqual(await ids(ctx.world.owner), [mine.handle.sandboxId])
      assert.deepEqual(await ids(ctx.world.otherOwner), [theirs.handle.sandboxId])
    },
  },
  {
    name: 'a sandbox has egress exactly when its network level says so, and list finds it again',
    async run(ctx) {
      const { handle, network } = await ctx.create()
      const door = ctx.provider.egress?.door(handle)
      const hasDoor = network.level === 'proxy' || network.level === 'transparent'
      assert.equal(door !== undefined, hasDoor)
      if (network.level !== 'transparent')
        assert.ok(network.reason, 'a level that is not enforced has a reason')
      const [listed] = await ctx.provider.list(ctx.world.owner, CONTRACT_CALL)
      const again = listed && ctx.provider.egress?.door(listed.handle)
      assert.equal(again?.kind, door?.kind)
      if (door?.kind === 'socket') assert.deepEqual(again, door)
    },
  },
  {
    name: 'inspect of an unknown id is absent',
    async run(ctx) {
      assert.deepEqual(await ctx.inspect(ctx.world.newId()), { state: 'absent' })
    },
  },
  {
    name: 'the output of a command is delivered',
    async run(ctx) {
      const { guest } = await ctx.started()
      const result = await runCommand(guest, '/bin/echo', ['hello', 'Grüße'])
      assert.deepEqual(result, { exitCode: 0, stdout: 'hello Grüße\n', stderr: '' })
    },
  },
  {
    name: 'the exit code of a command is delivered',
    async run(ctx) {
      const { guest } = await ctx.started()
      assert.equal((await runCommand(guest, '/bin/sh', ['-c', 'exit 0'])).exitCode, 0)
      assert.equal((await runCommand(guest, '/bin/sh', ['-c', 'exit 7'])).exitCode, 7)
    },
  },
  {
    name: 'stderr is separate from stdout',
    async run(ctx) {
      const { guest } = await ctx.started()
      const result = await runCommand(guest, '/bin/sh', ['-c', 'echo out; echo err >&2; exit 3'])
      assert.deepEqual(result, { exitCode: 3, stdout: 'out\n', stderr: 'err\n' })
    },
  },
  {
    name: 'commands get the variables and the default user of configure',
    async run(ctx) {
      const { guest } = await ctx.started({}, { env: { CONTRACT: 'a b=c' } })
      assert.equal((await runCommand(guest, 'printenv', ['CONTRACT'])).stdout, 'a b=c\n')
      assert.equal((await runCommand(guest, 'id', ['-un'])).stdout, 'user\n')
      assert.equal((await runCommand(guest, 'id', ['-un'], { user: 'root' })).stdout, 'root\n')
    },
  },
  {
    name: 'configure may be repeated',
    async run(ctx) {
      const created = await ctx.create()
      const guest = ctx.open(created)
      for (const value of ['one', 'two']) {
        await guest.configure({ ...INIT, env: { ...created.env, CONTRACT: value } }, CONTRACT_CALL)
        assert.equal((await runCommand(guest, 'printenv', ['CONTRACT'])).stdout, `${value}\n`)
      }
    },
  },
  {
    name: 'a file is read as it was written, and a missing one is not_found',
    async run(ctx) {
      const { guest } = await ctx.started()
      const content = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 7) & 0xff))
      await writeFile(guest, '/tmp/Übung.bin', content)
      assert.ok((await readFile(guest, '/tmp/Übung.bin')).equals(content))
      assert.equal(await contentOf(guest, '/tmp/none'), 'not_found')
    },
  },
  {
    name: 'two sandboxes do not see each other’s files',
    async run(ctx) {
      const [one, two] = await Promise.all([ctx.started(), ctx.started()])
      await writeFile(one.guest, '/tmp/secret', Buffer.from('of one'))
      assert.equal((await runCommand(one.guest, 'cat', ['/tmp/secret'])).stdout, 'of one')
      assert.equal(await contentOf(two.guest, '/tmp/secret'), 'not_found')
      assert.notEqual((await runCommand(two.guest, 'cat', ['/tmp/secret'])).exitCode, 0)
    },
  },
  {
    name: 'the processes of one sandbox do not count against another’s limit',
    async run(ctx) {
      const all = await Promise.all(Array.from({ length: 10 }, () => ctx.started()))
      const said = await Promise.all(all.map(({ guest }) => runCommand(guest, '/bin/echo', ['here'])))
      assert.deepEqual(
        said.map(({ stdout }) => stdout),
        all.map(() => 'here\n'),
      )
    },
  },
  {
    name: 'a sandbox ends at its deadline without a server, and the exit says that it expired',
    needs: NEEDS.deadlines,
    async run(ctx) {
      const { id } = await ctx.started({ deadlineAt: ctx.world.now() + 1500 })
      const exit = await exitWithin(ctx, id, 1500 + ctx.world.graceMs)
      assert.deepEqual(exit, { sandboxId: id, oomKilled: false, expired: true })
      assert.deepEqual(await ctx.inspect(id), EXPIRED)
    },
  },
  {
    name: 'extend moves the deadline, later and earlier',
    needs: NEEDS.deadlines,
    async run(ctx) {
      const { id, guest } = await ctx.started({ deadlineAt: ctx.world.now() + 1500 })
      const later = ctx.world.now() + HOUR_MS
      await deadlinesOf(ctx).extend(id, later, CONTRACT_CALL)
      await deadlinesOf(ctx).extend(id, later, CONTRACT_CALL)
      await ctx.world.pass(1500 + ctx.world.graceMs)
      assert.deepEqual(await ctx.inspect(id), { state: 'running', deadlineAt: later })
      assert.equal((await runCommand(guest, '/bin/echo', ['alive'])).stdout, 'alive\n')
      await deadlinesOf(ctx).extend(id, ctx.world.now() + 200, CONTRACT_CALL)
      assert.equal((await exitWithin(ctx, id, 200 + ctx.world.graceMs)).expired, true)
    },
  },
  {
    name: 'extend of an unknown sandbox is an error',
    needs: NEEDS.deadlines,
    async run(ctx) {
      await rejectsWith(
        deadlinesOf(ctx).extend(ctx.world.newId(), ctx.world.now() + 1000, CONTRACT_CALL),
        'not_found',
      )
    },
  },
  {
    name: 'a sandbox that ended on its own does not answer, and can be destroyed',
    async run(ctx) {
      // The guest or the provider ends it, whichever enforces deadlines.
      const { id, guest } = await ctx.started(
        { deadlineAt: ctx.world.now() + 1500 },
        { lease: { remainingMs: 300, idleMs: 0 } },
      )
      await exitWithin(ctx, id, 1500 + ctx.world.graceMs)
      await rejectsWith(guest.health({ timeoutMs: 2000 }), 'unavailable')
      await ctx.provider.destroy(id, CONTRACT_CALL)
      assert.deepEqual(await ctx.inspect(id), { state: 'absent' })
    },
  },
  {
    name: 'the stats of a running sandbox are plausible',
    needs: NEEDS.metering,
    async run(ctx) {
      const { id, guest } = await ctx.started()
      await runCommand(guest, '/bin/echo', ['work'])
      const stats = await meteringOf(ctx).stats(id, CONTRACT_CALL)
      const inside = await guest.stats(CONTRACT_CALL)
      for (const [name, value] of [...Object.entries(stats), ...Object.entries(inside)]) {
        assert.ok(Number.isFinite(value) && value >= 0, `${name} is ${value}`)
      }
      assert.ok(stats.memPeakBytes === 0 || stats.memPeakBytes >= stats.memBytes / 2)
      assert.ok(inside.uptimeMs < 120_000)
      assert.ok(stats.pids <= 64 && stats.oomKills === 0)
    },
  },
  {
    name: 'stats of an unknown sandbox are not_found',
    needs: NEEDS.metering,
    async run(ctx) {
      await rejectsWith(meteringOf(ctx).stats(ctx.world.newId(), CONTRACT_CALL), 'not_found')
    },
  },
  {
    name: 'PROV-2 capabilities agree with the members of the provider, and stay the same',
    async run(ctx) {
      const capabilities = await ctx.provider.capabilities(CONTRACT_CALL)
      const { provider } = ctx
      const hasEgress = capabilities.network === 'proxy' || capabilities.network === 'transparent'
      assert.equal(provider.deadlines !== undefined, capabilities.deadlines === 'provider')
      assert.equal(provider.pausing !== undefined, capabilities.pause !== 'none')
      assert.equal(provider.pausing?.toDisk !== undefined, capabilities.pause === 'memory')
      assert.equal(provider.stopping !== undefined, capabilities.stop !== 'none')
      assert.equal(provider.snapshots !== undefined, capabilities.snapshot !== 'none')
      assert.equal(provider.metering !== undefined, capabilities.metering !== 'none')
      assert.equal(provider.egress !== undefined, hasEgress)
      assert.equal(provider.layers !== undefined, capabilities.layers)
      assert.equal(provider.images !== undefined, capabilities.images)
      assert.equal(provider.host !== undefined, capabilities.host)
      assert.deepEqual(await ctx.provider.capabilities(CONTRACT_CALL), capabilities)
      const { limits } = await ctx.create()
      const isAllEnforced = LIMITED.every((limit) => limits[limit].level === 'enforced')
      if (capabilities.limits === 'none') assert.notEqual(limits.memory.level, 'enforced')
      if (isAllEnforced) assert.equal(capabilities.limits, 'enforced')
    },
  },
  {
    name: 'limits that are enforced can be required',
    async run(ctx) {
      const { limits, handle } = await ctx.create()
      const held = LIMITED.filter((limit) => limits[limit].level === 'enforced')
      await ctx.provider.destroy(handle.sandboxId, CONTRACT_CALL)
      const again = await ctx.create({ required: held })
      for (const limit of held) assert.equal(again.limits[limit].level, 'enforced')
    },
  },
  {
    name: 'BOX-5 a required limit that cannot be enforced is refused before anything exists',
    needs: NEEDS.missingLimits,
    async run(ctx) {
      const { limits, handle } = await ctx.create()
      await ctx.provider.destroy(handle.sandboxId, CONTRACT_CALL)
      const missing = LIMITED.filter((limit): limit is Limited => limits[limit].level !== 'enforced')
      assert.ok(missing.length > 0, 'capabilities say that not every limit holds')
      const plan = ctx.plan({ required: missing })
      await rejectsWith(ctx.provider.create(plan, CONTRACT_CALL), 'unsupported')
      assert.deepEqual(await ctx.inspect(plan.sandboxId), { state: 'absent' })
    },
  },
  {
    name: 'BOX-5 a create on an unknown layer fails and leaves nothing',
    needs: NEEDS.layers,
    async run(ctx) {
      const plan = ctx.plan({ root: ctx.provider.layers?.root([UNKNOWN_DIGEST]) ?? {} })
      await rejectsWith(ctx.provider.create(plan, CONTRACT_CALL), 'not_found')
      assert.deepEqual(await ctx.inspect(plan.sandboxId), { state: 'absent' })
      assert.deepEqual(await ctx.provider.list(ctx.world.owner, CONTRACT_CALL), [])
      assert.equal(await ctx.provider.layers?.has(UNKNOWN_DIGEST, CONTRACT_CALL), false)
    },
  },
  {
    name: 'a dial to a closed port is port.closed',
    async run(ctx) {
      const { guest } = await ctx.started()
      await rejectsWith(guest.dial(9, CONTRACT_CALL), 'unavailable', 'port.closed')
    },
  },
  {
    name: 'a guest can be closed twice, and the sandbox keeps running',
    async run(ctx) {
      const { id, guest } = await ctx.started()
      guest.close()
      guest.close()
      assert.equal((await ctx.inspect(id)).state, 'running')
      const again = ctx.provider.open({
        ...(await ctx.provider.list(ctx.world.owner, CONTRACT_CALL))[0]?.handle,
      } as Created['handle'])
      assert.equal((await runCommand(again, '/bin/echo', ['still'])).stdout, 'still\n')
      again.close()
    },
  },
  {
    name: 'clear is refused while a sandbox exists',
    async run(ctx) {
      const { id } = await ctx.started()
      await rejectsWith(ctx.provider.clear(CONTRACT_CALL), 'conflict')
      assert.equal((await ctx.inspect(id)).state, 'running')
    },
  },
  {
    name: 'ten creates at once give ten sandboxes that work',
    async run(ctx) {
      const made = await Promise.all(Array.from({ length: 10 }, () => ctx.started()))
      const said = await Promise.all(made.map(({ id, guest }) => runCommand(guest, '/bin/echo', [id])))
      assert.deepEqual(
        said.map(({ stdout }) => stdout),
        made.map(({ id }) => `${id}\n`),
      )
      assert.equal((await ctx.provider.list(ctx.world.owner, CONTRACT_CALL)).length, 10)
    },
  },
]
