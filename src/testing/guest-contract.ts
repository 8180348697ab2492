/** The part of the provider contract about guests: processes by offset, input, signals, files. */
import assert from 'node:assert/strict'
import type { Guest, GuestLeases } from '../core/guest.ts'
import type { GuestCommand } from '../core/guest-process.ts'
import {
  CONTRACT_CALL,
  type ContractCase,
  type ContractContext,
  contentOf,
  exitWithin,
  HOUR_MS,
  heard,
  rejectsWith,
  writeFile,
} from './contract-context.ts'

const inTime = (): { signal: AbortSignal } => ({ signal: AbortSignal.timeout(30_000) })

/** Starts a program with a tag, and does not wait for it. */
async function begin(guest: Guest, tag: string, command: Partial<GuestCommand>): Promise<number> {
  const all = { command: 'cat', args: [], env: {}, stdin: true, tag, ...command }
  for await (const event of guest.processes.start(all, inTime())) if (event.kind === 'start') return event.pid
  throw new assert.AssertionError({ message: `${tag} did not start` })
}

/** A guest may only lack leases if the provider enforces deadlines. */
async function leaseOf(ctx: ContractContext, { lease }: Guest): Promise<GuestLeases> {
  if (lease) return lease
  const { deadlines } = await ctx.provider.capabilities(CONTRACT_CALL)
  assert.equal(deadlines, 'provider', 'capability deadlines is guest, so the guest has leases')
  return ctx.skip('capability deadlines: the provider alone holds them, the guest has no lease')
}

export const GUEST_CONTRACT: readonly ContractCase[] = [
  {
    name: 'aborting the signal ends the stream of a process, and the process keeps running',
    async run(ctx) {
      const { guest } = await ctx.started()
      const cut = new AbortController()
      const command = { command: 'sleep', args: ['600'], env: {}, stdin: false, tag: 'long' }
      const events = guest.processes.start(command, cut)[Symbol.asyncIterator]()
      assert.equal((await events.next()).value?.kind, 'start')
      const next = events.next()
      cut.abort()
      await rejectsWith(next, 'canceled')
      await rejectsWith(guest.processes.list(cut), 'canceled')
      const [found] = await guest.processes.list({ ...inTime(), tag: 'long' })
      assert.equal(found?.ended, undefined)
      await guest.health(CONTRACT_CALL)
    },
  },
  {
    name: 'a process can be followed again from any byte of its output',
    async run(ctx) {
      const { guest } = await ctx.started()
      await begin(guest, 'talk', { command: '/bin/sh', args: ['-c', 'echo one; echo two; exit 3'] })
      for (const [from, said] of [
        [{ offset: 0 }, 'one\ntwo\n'],
        [{ offset: 4 }, 'two\n'],
        [{ stdout: 5 }, 'wo\n'],
      ] as const) {
        // It may not have written that much yet.
        await heard(guest.processes.attach({ tag: 'talk' }, { offset: 0 }, inTime()))
        const { exit, text } = await heard(guest.processes.attach({ tag: 'talk' }, from, inTime()))
        assert.deepEqual([text('stdout'), exit.exitCode], [said, 3])
      }
      const none = guest.processes.attach({ tag: 'none' }, 'now', inTime())
      await rejectsWith(heard(none), 'not_found')
    },
  },
  {
    name: 'input has an offset, is delivered once, and can be closed',
    async run(ctx) {
      const { guest } = await ctx.started()
      await begin(guest, 'cat', {})
      const { processes } = guest
      assert.equal(await processes.writeAt('cat', 0, Buffer.from('abc'), inTime()), 3)
      assert.equal(await processes.writeAt('cat', 1, Buffer.from('bcd'), inTime()), 4)
      await rejectsWith(processes.writeAt('cat', 9, Buffer.from('x'), inTime()), 'failed_precondition')
      await processes.write({ tag: 'cat' }, 'stdin', Buffer.from('e'), inTime())
      const [found] = await processes.list({ ...inTime(), tag: 'cat' })
      assert.equal(found?.stdinBytes, 5)
      await processes.closeStdin({ tag: 'cat' }, inTime())
      const { exit, text } = await heard(processes.attach({ tag: 'cat' }, { offset: 0 }, inTime()))
      assert.deepEqual([text('stdout'), exit.exitCode], ['abcde', 0])
    },
  },
  {
    name: 'a tag names one process, and a signal ends it',
    async run(ctx) {
      const { guest } = await ctx.started()
      const pid = await begin(guest, 'one', { command: 'sleep', args: ['600'] })
      await rejectsWith(begin(guest, 'one', { command: 'true' }), 'already_exists')
      await guest.processes.signal({ pid }, 'SIGKILL', inTime())
      const { exit } = await heard(guest.processes.attach({ tag: 'one' }, { offset: 0 }, inTime()))
      assert.equal(exit.signal, 'SIGKILL')
      const [found] = await guest.processes.list({ ...inTime(), tag: 'one' })
      assert.deepEqual(found?.ended?.exit, exit)
      await rejectsWith(guest.processes.signal({ tag: 'none' }, 'SIGTERM', inTime()), 'not_found')
    },
  },
  {
    name: 'a command that takes too long is killed and reported as deadline_exceeded',
    async run(ctx) {
      const { guest } = await ctx.started()
      const late = { command: 'sleep', args: ['600'], env: {}, stdin: false, timeoutMs: 500 }
      const running = heard(guest.processes.start(late, inTime()))
      running.catch(() => undefined)
      await ctx.world.pass(600)
      await rejectsWith(running, 'deadline_exceeded')
    },
  },
  {
    name: 'files are described, moved and removed',
    async run(ctx) {
      const { guest } = await ctx.started()
      await writeFile(guest, '/tmp/dir/a', Buffer.from('abc'))
      const entry = await guest.files.stat('/tmp/dir/a', inTime())
      assert.deepEqual(
        [entry.name, entry.path, entry.type, entry.sizeBytes, entry.owner],
        ['a', '/tmp/dir/a', 'file', 3, 'user'],
      )
      assert.deepEqual(await guest.files.list('/tmp/dir', 1, inTime()), [entry])
      await guest.files.move('/tmp/dir/a', '/tmp/dir/b', inTime())
      assert.equal(await contentOf(guest, '/tmp/dir/a'), 'not_found')
      assert.equal(await contentOf(guest, '/tmp/dir/b'), 'abc')
      await guest.files.remove('/tmp/dir/b', inTime())
      await guest.files.remove('/tmp/dir/b', inTime())
      await rejectsWith(guest.files.stat('/tmp/dir/b', inTime()), 'not_found')
    },
  },
  {
    name: 'the guest ends the sandbox when its lease expires, and renew extends the lease',
    async run(ctx) {
      const { id, guest } = await ctx.started({}, { lease: { remainingMs: 1500, idleMs: 0 } })
      const lease = await leaseOf(ctx, guest)
      await lease.renew({ remainingMs: HOUR_MS, idleMs: 0 }, CONTRACT_CALL)
      await ctx.world.pass(2500)
      assert.equal((await ctx.inspect(id)).state, 'running')
      await lease.renew({ remainingMs: 200, idleMs: 0 }, CONTRACT_CALL)
      assert.equal((await exitWithin(ctx, id, 200 + ctx.world.graceMs)).expired, true)
      assert.deepEqual(await ctx.inspect(id), { state: 'exited', oomKilled: false, expired: true })
    },
  },
]
