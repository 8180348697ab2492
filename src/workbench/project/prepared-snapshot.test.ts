import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { after, test } from 'node:test'
import type { AgentPod } from '../../client/client.ts'
import { openRepository } from '../../sync/git/plumbing/repository.ts'
import { nobody } from '../ask.ts'
import type { Workbench } from '../workbench.ts'
import { holdState, prepareSnapshot } from './prepared-snapshot.ts'

const root = mkdtempSync(join(tmpdir(), 'prepare-run-'))
after(() => rmSync(root, { recursive: true, force: true }))

interface Taken {
  readonly id: string
  readonly labels: Record<string, string>
  readonly state: 'ready'
}

/** A server with these snapshots, on which everything that is done inside goes well. */
function podWith(snapshots: Taken[], made: (string | undefined)[]): AgentPod {
  const child = { output: async function* () {}, exit: { exitCode: 0 } }
  return {
    snapshots: { list: async () => [...snapshots], remove: async () => undefined },
    async create({ snapshot }: { snapshot?: string }) {
      made.push(snapshot)
      return {
        async writeFile(_: string, data: Readable) {
          for await (const __ of data);
        },
        exec: () => child,
        stop: async () => undefined,
        async snapshot({ labels }: { labels: Record<string, string> }) {
          const taken: Taken = { id: `snapshot-${snapshots.length}`, labels, state: 'ready' }
          snapshots.unshift(taken)
          return taken
        },
        destroy: async () => undefined,
      }
    },
  } as unknown as AgentPod
}

test('a copy of the project is taken up again, and never one that somebody else put the same labels on', async () => {
  const git = (...args: string[]): Buffer => execFileSync('git', args, { cwd: root })
  git('init', '-q')
  writeFileSync(join(root, 'a.txt'), 'a\n')
  const env = { PATH: process.env['PATH'], HOME: root }
  const snapshots: Taken[] = []
  const made: (string | undefined)[] = []
  const prepare = async (home: string): Promise<string> => {
    const ctx = { home: { root: join(root, home) }, person: nobody, env } as unknown as Workbench
    const repo = await openRepository(root, env)
    using held = await holdState(ctx, repo, { isClean: true })
    const o = { repo, held, options: {}, user: 'user', generated: [], workspace: '/home/user/project' }
    return (await prepareSnapshot(ctx, podWith(snapshots, made), o)).snapshot
  }
  git('add', 'a.txt')
  git('-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '-q', '-m', 'a')
  const first = await prepare('.home')
  assert.equal(await prepare('.home'), first, 'nothing has changed')
  assert.deepEqual(made, [undefined])
  const [{ labels } = assert.fail('none was taken')] = snapshots
  // An admin sees everybody's snapshots, newest first.
  snapshots.unshift({ id: 'forged', labels, state: 'ready' })
  assert.equal(await prepare('.home'), first)
  snapshots.splice(1)
  assert.notEqual(await prepare('.home'), 'forged')
  assert.deepEqual(made, [undefined, undefined], 'it begins with nothing of another’s')
})
