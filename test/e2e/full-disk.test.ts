/**
 * A state directory on a full disk: clear errors, nothing half created, and everything works again when there
 * is space.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { NO_GVISOR } from '../support/gvisor.ts'
import { until, World } from '../support/world.ts'

const skip = process.getuid?.() !== 0 && 'only root can mount a small disk'
const outer = new World()
const home = join(outer.directory(), 'disk')
const world = new World({ home })
const ballast = join(home, 'ballast')

before(() => {
  if (skip) return
  mkdirSync(home)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128m,mode=700', 'agentpod-test', home])
})
after(async () => {
  if (!skip) {
    rmSync(ballast, { force: true })
    await world.ok(['destroy', '--all'])
    await world.ok(['server', 'stop'])
    // A mount point cannot be removed, so reset is not used here; podhost ends with the server when nothing
    // is running.
    await until('the disk is free', () => spawnSync('umount', [home]).status === 0)
  }
  await outer[Symbol.asyncDispose]()
})

function fill(leave = 0): void {
  rmSync(ballast, { force: true })
  const { bavail, bsize } = statfsSync(home)
  try {
    writeFileSync(ballast, Buffer.alloc(bavail * bsize - leave))
  } catch {
    // Full is what is wanted.
  }
}

test('STATE-8 create on a full disk fails clearly and leaves nothing, and works again once there is space', {
  skip,
}, async () => {
  await world.ok(['create', '--name', 'early'])
  const sandboxes = (): string[] => readdirSync(join(home, 'sandboxes'))
  const earlier = sandboxes()
  fill()
  const { code, stderr } = await world.cli(['create'])
  assert.equal(code, 7, stderr)
  assert.match(stderr, /no space|full|disk/i)
  assert.match(stderr, /hint: /)
  assert.match(await world.ok(['ls']), /early/, 'the server lives and answers')
  assert.equal(await world.ok(['exec', 'early', 'echo', 'alive']), 'alive\n')
  rmSync(ballast)
  await world.ok(['create', '--name', 'late'])
  assert.equal(await world.ok(['exec', 'late', 'echo', 'well']), 'well\n')
  await world.ok(['destroy', 'late'])
  assert.deepEqual(sandboxes(), earlier)
})

test('STATE-8 a sandbox that fills the disk gets an error, and can be destroyed', { skip }, async () => {
  await world.ok(['create', '--name', 'filler'])
  const { code, stderr } = await world.cli(['exec', 'filler', '--', 'sh', '-c', 'cat /dev/zero > ~/big'])
  assert.notEqual(code, 0)
  assert.match(stderr, /No space left/)
  await world.ok(['destroy', 'filler'])
  await world.ok(['create', '--name', 'after'])
  await world.ok(['destroy', 'after'])
})

test('STATE-14 STATE-15 memory that does not fit on the disk is not saved, and its sandbox continues', {
  skip: skip || NO_GVISOR,
}, async () => {
  const inside = async (script: string): Promise<string> =>
    (await world.ok(['exec', 'holder', '--', 'sh', '-c', script])).trim()
  await world.ok(['create', '--name', 'holder', '--isolation', 'gvisor'])
  const program =
    'import os,time\ndata = os.urandom(24 << 20)\nn = 0\nwhile True:\n  n += 1; open("/tmp/n", "w").write("%d %d" % (n, len(data))); time.sleep(0.05)'
  await inside(`nohup python3 -c '${program}' >/dev/null 2>&1 & until test -s /tmp/n; do sleep 0.1; done`)
  const goesOn = async (): Promise<void> => {
    const before = Number.parseInt(await inside('cat /tmp/n'), 10)
    await until('it goes on', async () => Number.parseInt(await inside('cat /tmp/n'), 10) > before)
  }
  fill(6 << 20)
  for (const words of [
    ['snapshot', 'create', 'holder', '--memory', '--name', 'too-large'],
    ['pause', '--to-disk', 'holder'],
  ]) {
    const { code, stderr } = await world.cli(words)
    assert.notEqual(code, 0, words.join(' '))
    assert.match(stderr, /no space|full|disk/i)
    await goesOn()
  }
  assert.doesNotMatch(await world.ok(['snapshot', 'ls']), /too-large/)
  // The control: with space, both work.
  rmSync(ballast)
  await world.ok(['snapshot', 'create', 'holder', '--memory', '--name', 'fits'])
  await world.ok(['pause', '--to-disk', 'holder'])
  await world.ok(['resume', 'holder'])
  await goesOn()
  await world.ok(['destroy', 'holder'])
  await world.ok(['snapshot', 'rm', 'fits'])
})
