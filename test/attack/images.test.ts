/** Groups FS and SC: layers from others. They are unpacked with the host's authority. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../src/core/error.ts'
import { assertNoToken, Canary } from '../support/canary.ts'
import { podhostOf } from '../support/host-view.ts'
import { digestOf, type TarEntry, tarOf } from '../support/tar-bytes.ts'
import { World } from '../support/world.ts'

const world = new World()
const podhost = podhostOf(world)
const ASK = { timeoutMs: 30_000 }
let canary: Canary
let serial = 0

before(async () => {
  canary = await Canary.plant()
  await world.ok(['ls'])
})

after(async () => {
  await canary[Symbol.asyncDispose]()
  await podhost.close()
  await world[Symbol.asyncDispose]()
})

async function importLayer(entries: readonly TarEntry[]): Promise<string> {
  const bytes = tarOf(entries)
  const file = `layer-${serial++}.tar`
  mkdirSync(join(world.home, 'tmp'), { recursive: true })
  writeFileSync(join(world.home, 'tmp', file), bytes)
  try {
    await podhost.call('layer.import', { digest: digestOf(bytes), file }, ASK)
  } finally {
    rmSync(join(world.home, 'tmp', file), { force: true })
  }
  return digestOf(bytes)
}

/** Starts podd on the layers; the caller destroys it. */
async function createOn(...layers: string[]): Promise<string> {
  const id = `attack${serial++}`
  await podhost.call(
    'sandbox.create',
    {
      id,
      owner: 'attack',
      hostname: 'attack',
      root: { kind: 'layers', layers },
      resources: { memoryBytes: 0, swapBytes: 0, cpus: 0, pids: 0, files: 0, tmpBytes: 0, shmBytes: 0 },
      deadlineMs: Date.now() + 60_000,
    },
    ASK,
  )
  return id
}

const destroy = (id: string): Promise<unknown> => podhost.call('sandbox.destroy', { id }, ASK)

/** Every path below a directory, with what would tell that it was touched. */
function listing(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => {
      const { mode, uid, nlink, size } = statSync(path, { throwIfNoEntry: false }) ?? {}
      return `${path} ${mode} ${uid} ${nlink} ${size}`
    })
    .sort()
}

/** What podhost keeps: nothing may stay of a layer or a sandbox that was refused. */
const kept = (): Record<string, string[]> =>
  Object.fromEntries(
    ['layers', 'sandboxes', 'tmp'].map((name) => {
      const directory = join(world.home, name)
      return [name, existsSync(directory) ? readdirSync(directory) : []]
    }),
  )

const HARMLESS: readonly TarEntry[] = [
  { name: 'bin', type: 'directory' },
  { name: 'bin/tool', content: 'tool', mode: 0o755 },
  { name: 'bin/link', type: 'symlink', target: '/etc/passwd' },
  { name: 'bin/same', type: 'hardlink', target: 'bin/tool' },
]

test('the control: a harmless layer is taken, and a sandbox starts on it', async () => {
  const digest = await importLayer(HARMLESS)
  const id = await createOn(digest)
  const { state } = await podhost.call('sandbox.inspect', { id }, ASK)
  assert.equal(state, 'running')
  await destroy(id)
  await podhost.call('layer.remove', { digest }, ASK)
})

describe('layers that reach out are refused or kept in, and leave nothing', () => {
  let outside: string[]
  let before: Record<string, string[]>
  beforeEach(() => {
    outside = listing(canary.directory)
    before = kept()
  })

  const up = '../'.repeat(16)
  const hostile: Record<string, (c: Canary) => readonly TarEntry[]> = {
    'SC-01 an entry that steps up': (c) => [{ name: `${up}${c.directory.slice(1)}/made`, content: 'x' }],
    'SC-01 an entry that steps up in the middle': (c) => [
      { name: `a/b/${up}${c.directory.slice(1)}/made`, content: 'x' },
    ],
    'SC-01 an absolute entry': (c) => [{ name: `${c.directory}/made`, content: 'x' }],
    'SC-01 a link to outside and a file through it': (c) => [
      { name: 'door', type: 'symlink', target: c.directory },
      { name: 'door/made', content: 'x' },
    ],
    'SC-01 a link up and a file through it': (c) => [
      { name: 'door', type: 'symlink', target: `${up}${c.directory.slice(1)}` },
      { name: 'door/made', content: 'x' },
    ],
    'SC-01 a link to outside and a directory over it': (c) => [
      { name: 'door', type: 'symlink', target: c.directory },
      { name: 'door', type: 'directory', mode: 0o777 },
      { name: 'door/made', content: 'x' },
    ],
    'SC-01 two links that together lead out': (c) => [
      { name: 'a', type: 'directory' },
      { name: 'a/b', type: 'symlink', target: '..' },
      { name: 'c', type: 'symlink', target: `a/b/${up}${c.directory.slice(1)}` },
      { name: 'c/made', content: 'x' },
    ],
    'FS-07 a hard link to a file of the host': (c) => [{ name: 'stolen', type: 'hardlink', target: c.file }],
    'FS-07 a hard link that steps up': (c) => [
      { name: 'stolen', type: 'hardlink', target: `${up}${c.file.slice(1)}` },
    ],
    'FS-07 a hard link through a link': (c) => [
      { name: 'door', type: 'symlink', target: c.directory },
      { name: 'stolen', type: 'hardlink', target: 'door/secret' },
    ],
    'FS-07 a hard link from deep within': (c) => [
      { name: 'a/b/c/d/e/door', type: 'symlink', target: c.directory },
      { name: 'a/b/c/stolen', type: 'hardlink', target: 'a/b/c/d/e/door/secret' },
    ],
    'FS-06 a hard link to a link and a write through it': (c) => [
      { name: 'door', type: 'symlink', target: c.file },
      { name: 'second', type: 'hardlink', target: 'door' },
      { name: 'second', content: 'overwritten' },
    ],
    'SC-02 a whiteout of the parent': () => [{ name: '.wh...' }],
    'SC-02 a whiteout of the root': () => [{ name: '.wh..' }],
    'SC-02 a whiteout with an empty name': () => [{ name: '.wh.' }],
    'SC-02 a whiteout through a link': (c) => [
      { name: 'door', type: 'symlink', target: c.directory },
      { name: 'door/.wh.secret' },
    ],
    'SC-02 an opaque mark on a link': (c) => [
      { name: 'door', type: 'symlink', target: c.directory },
      { name: 'door/.wh..wh..opq' },
    ],
    'FS-13 a device node': () => [{ name: 'mem', type: 'char', device: [1, 1], mode: 0o666 }],
    'FS-13 a block device': () => [{ name: 'disk', type: 'block', device: [254, 0], mode: 0o666 }],
    'a name with a NUL byte and more': () => [{ name: `a\0${up}x`, content: 'x' }],
    'an owner outside the range': () => [{ name: 'x', content: 'x', uid: 70_000 }],
    'a size that is not there': () => [{ name: 'x', claimedSize: 1 << 30 }],
  }

  for (const [name, entriesFor] of Object.entries(hostile)) {
    test(`${name} changes nothing outside`, async () => {
      let digest: string | undefined
      try {
        digest = await importLayer(entriesFor(canary))
      } catch (error) {
        assert.ok(isAgentPodError(error, 'invalid_argument'), `a clear refusal, not ${error}`)
        assert.ok((error as Error).message.length > 10)
      }
      assert.deepEqual(listing(canary.directory), outside, 'the host tree')
      assert.equal(readFileSync(canary.file, 'utf8'), canary.token)
      if (digest === undefined) {
        assert.deepEqual(kept(), before, 'nothing is left')
        return
      }
      // Taken: then nothing of it may lead out.
      const tree = join(world.home, 'layers', digest, 'tree')
      for (const entry of readdirSync(tree, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name)
        assert.ok(entry.isFile() || entry.isDirectory() || entry.isSymbolicLink() || isWhiteout(path), path)
        if (entry.isFile()) assertNoToken(readFileSync(path, 'latin1'), canary.token, path)
      }
      await podhost.call('layer.remove', { digest }, ASK)
    })
  }
})

function isWhiteout(path: string): boolean {
  const info = statSync(path, { throwIfNoEntry: false })
  return info?.isCharacterDevice() === true && info.rdev === 0
}

describe('roots whose mount points are not plain directories do not start', () => {
  for (const point of ['dev', 'proc', 'sys', 'run', 'tmp', 'etc', '.agentpod']) {
    test(`FS-14 /${point} as a link is refused with a clear error`, async () => {
      const before = { ...kept() }
      const digest = await importLayer([
        { name: 'real', type: 'directory' },
        { name: point, type: 'symlink', target: canary.directory },
      ])
      const started = listing(canary.directory)
      await assert.rejects(createOn(digest), (error) => {
        assert.ok(isAgentPodError(error, 'invalid_argument'), String(error))
        return (error as Error).message.includes(`/${point}`)
      })
      assert.deepEqual(listing(canary.directory), started)
      assert.deepEqual((await podhost.call('sandbox.list', {}, ASK))['sandboxes'], [])
      await podhost.call('layer.remove', { digest }, ASK)
      assert.deepEqual(kept(), before)
    })

    test(`FS-14 /${point} as a file is refused too`, async () => {
      const digest = await importLayer([{ name: point, content: 'x' }])
      await assert.rejects(createOn(digest), (error) => isAgentPodError(error, 'invalid_argument'))
      await podhost.call('layer.remove', { digest }, ASK)
    })
  }

  test('FS-14 a link that a higher layer brings is refused as well', async () => {
    const low = await importLayer([{ name: 'dev', type: 'directory' }])
    const high = await importLayer([{ name: 'dev', type: 'symlink', target: '/proc' }])
    await assert.rejects(createOn(low, high), (error) => isAgentPodError(error, 'invalid_argument'))
    for (const digest of [low, high]) await podhost.call('layer.remove', { digest }, ASK)
  })
})

describe('layer entries at the runtime’s mount points', () => {
  const traps: Record<string, readonly TarEntry[]> = {
    'FS-13 /dev/null as a link to core_pattern': [
      { name: 'dev', type: 'directory' },
      { name: 'dev/null', type: 'symlink', target: '/proc/sys/kernel/core_pattern' },
      { name: 'dev/zero', type: 'symlink', target: '/proc/sysrq-trigger' },
    ],
    'FS-13 /dev/pts and /dev/console as links': [
      { name: 'dev', type: 'directory' },
      { name: 'dev/pts', type: 'symlink', target: '/proc/sys/kernel' },
      { name: 'dev/console', type: 'symlink', target: '/proc/sysrq-trigger' },
      { name: 'dev/shm', type: 'symlink', target: '/etc' },
      { name: 'dev/mqueue', type: 'symlink', target: '/etc' },
    ],
    'FS-13 masked paths as links': [
      { name: 'proc', type: 'directory' },
      { name: 'proc/kcore', type: 'symlink', target: '/etc/passwd' },
      { name: 'proc/sys', type: 'symlink', target: '/etc' },
      { name: 'sys', type: 'directory' },
      { name: 'sys/firmware', type: 'symlink', target: '/etc' },
    ],
    'podd and identity files as links': [
      { name: '.agentpod', type: 'directory' },
      { name: '.agentpod/podd', type: 'symlink', target: '/etc/hostname' },
      { name: 'etc', type: 'directory' },
      { name: 'etc/hostname', type: 'symlink', target: '/../../../../../../tmp/agentpod-hostname' },
      { name: 'etc/hosts', type: 'symlink', target: '/proc/1/root/etc/hosts' },
      { name: 'etc/machine-id', type: 'symlink', target: '/dev/null' },
    ],
  }
  for (const [name, entries] of Object.entries(traps)) {
    test(`${name} starts with its own, and the host is unchanged`, async () => {
      const watched = ['/proc/sys/kernel/core_pattern', '/etc/passwd', '/etc/hostname', '/etc/hosts']
      const read = (): (string | undefined)[] =>
        watched.map((path) => (existsSync(path) ? readFileSync(path, 'utf8') : undefined))
      const earlier = read()
      const digest = await importLayer(entries)
      const id = await createOn(digest)
      try {
        const { pid } = (await podhost.call('sandbox.inspect', { id }, ASK)) as { pid: number }
        const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
          .split('\n')
          .map((line) => line.split(' ')[4])
        for (const point of [
          '/proc',
          '/dev',
          '/sys',
          '/tmp',
          '/run',
          '/dev/pts',
          '/dev/null',
          '/.agentpod/podd',
          '/proc/sys',
        ])
          assert.ok(mounts.includes(point), `${point} is mounted`)
        assert.equal(statSync(`/proc/${pid}/root/dev/null`).rdev, statSync('/dev/null').rdev)
        assert.equal(existsSync('/tmp/agentpod-hostname'), false)
      } finally {
        await destroy(id)
        await podhost.call('layer.remove', { digest }, ASK)
      }
      assert.deepEqual(read(), earlier)
    })
  }
})

test('a layer under a wrong digest is refused and leaves nothing', async () => {
  const before = kept()
  const bytes = tarOf(HARMLESS)
  writeFileSync(join(world.home, 'tmp', 'wrong.tar'), bytes)
  await assert.rejects(
    podhost.call('layer.import', { digest: '0'.repeat(64), file: 'wrong.tar' }, ASK),
    (error) => isAgentPodError(error),
  )
  rmSync(join(world.home, 'tmp', 'wrong.tar'))
  assert.deepEqual(kept(), before)
})

test('the name of a layer’s file cannot leave the directory for it', async () => {
  for (const file of ['../host.json', '/etc/passwd', 'a/../../x', '..', '', 'a\0b', 'x/y']) {
    await assert.rejects(
      podhost.call('layer.import', { digest: '0'.repeat(64), file }, ASK),
      (error) => isAgentPodError(error) && error.code !== 'internal',
      JSON.stringify(file),
    )
  }
})
