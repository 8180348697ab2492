/** A thousand lives, and five hundred at once: nothing grows, nothing stays. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { readyShells } from '../support/host-view.ts'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())
const pod = world.client()
/** podhost names the control groups of a state directory after it, so others do not count. */
const SCOPE = createHash('sha256').update(world.home).digest('hex').slice(0, 8)

interface Footprint {
  readonly serverMib: number
  readonly podhostMib: number
  readonly descriptors: number
  readonly mounts: number
  readonly cgroups: readonly string[]
}

/** Every control group of this state directory, below those of the sandboxes too. */
function groups(): string[] {
  return globSync(`/sys/fs/cgroup/{*/,}agentpod/${SCOPE}/**/`).sort()
}

function footprint(): Footprint {
  const podhost = Number.parseInt(
    execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
      .split('\n')
      .find((line) => line.includes('podhost serve') && line.includes(world.home)) ?? '',
    10,
  )
  const rss = (pid: number): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
  return {
    serverMib: rss(world.serverPid),
    podhostMib: rss(podhost),
    descriptors:
      readdirSync(`/proc/${world.serverPid}/fd`).length + readdirSync(`/proc/${podhost}/fd`).length,
    mounts: readFileSync(`/proc/${podhost}/mounts`, 'utf8').split('\n').length,
    cgroups: groups(),
  }
}

/**
 * Shells count as well. After many starts at once podhost keeps more of them for a minute, so there may be
 * four for a moment while their number rises, or while another one is made or ended.
 */
async function shellsAreFull(): Promise<void> {
  for (;;) {
    const before = [await readyShells(world, 4, 120_000), groups()]
    await pause(2000)
    if (isDeepStrictEqual([await readyShells(world, 4, 120_000), groups()], before)) return
  }
}

async function lives(count: number, atOnce: number): Promise<void> {
  let left = count
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left-- > 0) {
        const sandbox = await pod.create({})
        const { stdout } = await sandbox.exec('echo', { args: ['alive'] }).wait()
        assert.equal(stdout, 'alive\n')
        await sandbox.destroy()
      }
    }),
  )
}

test('a thousand sandboxes, created, used and destroyed, leave the machine as it was', {
  timeout: 900_000,
}, async () => {
  // Until the heap has found its size; what grows after that grows for good.
  await lives(1000, 8)
  await shellsAreFull()
  const before = footprint()
  assert.ok(before.cgroups.length > 0, 'the shells have control groups')
  await lives(1000, 8)
  await shellsAreFull()
  const grown = footprint()
  assert.deepEqual(readdirSync(join(world.home, 'sandboxes')), [])
  assert.equal(grown.mounts, before.mounts)
  assert.equal(
    grown.cgroups.length,
    before.cgroups.length,
    [...before.cgroups, '', ...grown.cgroups].join('\n'),
  )
  assert.ok(
    grown.descriptors <= before.descriptors + 16,
    `${before.descriptors} to ${grown.descriptors} descriptors`,
  )
  assert.ok(grown.serverMib < before.serverMib + 40, `${before.serverMib} to ${grown.serverMib} MiB`)
  assert.ok(grown.podhostMib < before.podhostMib + 20, `${before.podhostMib} to ${grown.podhostMib} MiB`)
})

test('five hundred sandboxes run at once, and each answers', { timeout: 900_000 }, async () => {
  const all: Awaited<ReturnType<typeof pod.create>>[] = []
  let left = 500
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (left-- > 0) all.push(await pod.create({ resources: { memoryMib: 64 } }))
    }),
  )
  assert.equal(all.length, 500)
  for (const sandbox of all) {
    const { exitCode } = await sandbox.exec('true').wait()
    assert.equal(exitCode, 0)
  }
  await Promise.all(all.map((sandbox) => sandbox.destroy()))
  assert.deepEqual(readdirSync(join(world.home, 'sandboxes')), [])
})
