/**
 * Files that outlive a run: disks that are filled, copies that must differ, archives and layers that were
 * tampered with.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { archiveParts } from '../support/archive-parts.ts'
import { differsOn, HAS_HOST_BASE, NO_ARCHIVES, ON_DOCKER, ON_QEMU } from '../support/chosen-provider.ts'
import { heldOutside } from '../support/host-view.ts'
import { shell } from '../support/probe.ts'
import { type TarEntry, tarOf } from '../support/tar-bytes.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const client = world.client()
let neighbour: Sandbox
let hasQuotas = false

before(async () => {
  neighbour = await client.create({})
  hasQuotas = neighbour.info.limits?.disk.level === 'enforced'
})
after(() => world[Symbol.asyncDispose]())

describe('RS-05, RS-06 a sandbox that fills its disk', () => {
  const fill = {
    bytes: 'dd if=/dev/zero of=$HOME/big bs=1M 2>&1 | tail -1; head -c 1 /dev/zero > $HOME/more',
    files:
      "python3 -c \"\nimport os\nn = 0\nwhile True:\n  open(os.path.expanduser('~/f%d' % n), 'w').close()\n  n += 1\n\"",
  }
  for (const [what, script] of Object.entries(fill)) {
    test(`STATE-8 RS-05 RS-06 a sandbox that fills its disk with ${what} gets an error at its own limit, and nobody else notices`, async (t) => {
      if (!hasQuotas) return t.skip('nothing limits disks here')
      const stored = (): number => allocatedBytes(world.home)
      // Empty files fill a disk slowly.
      await using filler = await client.create({ resources: { diskMib: what === 'files' ? 16 : 48 } })
      assert.equal(filler.info.limits?.disk.level, 'enforced')
      if (ON_QEMU) await nextMachineWaits(filler)
      const earlier = stored()
      const result = await filler.exec('/bin/sh', { args: ['-c', script] }).wait()
      assert.notEqual(result.exitCode, 0, 'the control: it ran into a limit')
      assert.match(result.stdout + result.stderr, /quota|space/i)
      assert.ok(stored() - earlier < 1 << 30, 'the host keeps its space')
      assert.equal(
        await shell(neighbour, 'dd if=/dev/zero of=$HOME/x bs=1M count=64 2>/dev/null && echo wrote'),
        'wrote\n',
      )
      assert.ok((await client.list()).length >= 2, 'the server writes its database')
      await shell(filler, 'rm -rf ~/big ~/more; find ~ -name "f*" -delete; echo again > ~/small')
    })
  }

  test('RS-05 a copy counts for itself, and the limit holds in it', async (t) => {
    if (!hasQuotas) return t.skip('nothing limits disks here')
    await using source = await client.create({ resources: { diskMib: 48 } })
    await shell(source, 'dd if=/dev/urandom of=$HOME/half bs=1M count=20 2>/dev/null')
    const [copy] = await source.fork()
    assert.ok(copy)
    await using fork = copy
    const { exitCode } = await fork.exec('/bin/sh', { args: ['-c', fill.bytes] }).wait()
    assert.notEqual(exitCode, 0)
    assert.equal(await shell(source, 'stat -c %s $HOME/half'), `${20 << 20}\n`)
  })
})

test('STATE-6 LK-13 forks share no identity, no random numbers and no token', async () => {
  await using source = await client.create({ name: 'origin' })
  const forks = await source.fork({ count: 2 })
  const facts = await Promise.all(
    [source, ...forks].map(async (one) => ({
      id: one.id,
      hostname: (await shell(one, 'hostname')).trim(),
      machine: (await shell(one, 'cat /etc/machine-id')).trim(),
      boot: (await shell(one, 'cat /proc/sys/kernel/random/boot_id')).trim(),
      random: (await shell(one, 'head -c 32 /dev/urandom | sha256sum')).trim(),
      uuid: (await shell(one, 'cat /proc/sys/kernel/random/uuid')).trim(),
    })),
  )
  for (const fact of ['id', 'hostname', 'machine', 'boot', 'random', 'uuid'] as const) {
    // A container of Docker shows the boot id of its kernel, which is the host's.
    if (fact === 'boot' && ON_DOCKER) continue
    const values = facts.map((one) => one[fact])
    assert.equal(new Set(values).size, 3, `${fact}: ${values.join(', ')}`)
    assert.ok(values.every(Boolean), fact)
  }
  await Promise.all(forks.map((one) => one.destroy()))
})

test(
  'STATE-7 LK-14 an archive has no variable of its sandbox, nor anything of the host',
  NO_ARCHIVES,
  async () => {
    const canary = 'canary-of-a-key-in-a-variable'
    await using source = await client.create({ environment: { variables: { API_KEY: canary } } })
    await shell(source, 'echo control-was-written > ~/file; echo $API_KEY | wc -c')
    const snapshot = await source.snapshot({})
    const archive = await bytesOf(await client.snapshots.export(snapshot.id))
    const parts = archiveParts(archive)
    const has = (text: string): boolean => parts.some((part) => part.includes(text))
    assert.ok(has('control-was-written'), 'the control: files are in it')
    assert.ok(!has(canary))
    assert.ok(!has(world.home))
    await client.snapshots.remove(snapshot.id)
  },
)

describe('RL-43 a hostile archive', () => {
  const outside = join(tmpdir(), `agentpod-escape-${process.pid}`)
  const hostile: Readonly<Record<string, readonly TarEntry[]>> = {
    'a path that leads out': [{ name: `../../../../../../../..${outside}`, content: 'x' }],
    'a file behind a link that leads out': [
      { name: 'root/', type: 'directory' },
      { name: 'root/link', type: 'symlink', target: tmpdir() },
      { name: `root/link/${outside.split('/').at(-1)}`, content: 'x' },
    ],
    'a hard link to a file of the host': [
      { name: 'root/', type: 'directory' },
      { name: 'root/passwd', type: 'hardlink', target: '/etc/passwd' },
    ],
    'a device': [
      { name: 'root/', type: 'directory' },
      { name: 'root/disk', type: 'block', device: [8, 0] },
    ],
    'an owner outside the range': [
      { name: 'root/', type: 'directory' },
      { name: 'root/file', content: 'x', uid: 70_000 },
    ],
    'a file that claims more than there is': [{ name: 'root/file', content: 'x', claimedSize: 1 << 30 }],
  }
  const spec = {
    environment: { base: 'host', variables: {}, user: 'user', workdir: '', sudo: false },
    resources: {},
    lifetime: { ttlMs: 60_000, idleMs: 0, whenOver: 'destroy', autoResume: true },
  }
  const archiveOf = (packed: Buffer, over: object = {}): Buffer => {
    const sha = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex')
    const parts = [{ kind: 'files', digest: sha(packed), sizeBytes: packed.length }]
    const manifest = JSON.stringify({ base: 'host', createdAt: 0, spec, parts, ...over })
    return Buffer.concat([
      Buffer.from(`agentpod-snapshot 1 ${sha(manifest)} ${Buffer.byteLength(manifest)}\n${manifest}`),
      packed,
    ])
  }
  const TAKEN = differsOn({
    qemu: 'archives of files are refused there',
    docker: 'archives of files are refused there; its own hold layers, which the daemon unpacks',
  })
  const sent = (archive: Buffer): Promise<unknown> => client.snapshots.import(Readable.from([archive]), {})

  if (!HAS_HOST_BASE)
    test('RL-43 an archive of another provider is refused, and nothing is left', async () => {
      const earlier = await heldOutside(world)
      await assert.rejects(sent(archiveOf(gzipSync(tarOf([{ name: 'root/', type: 'directory' }])))), {
        code: 'unsupported',
      })
      assert.deepEqual(await heldOutside(world), earlier)
    })
  test('RL-43 the control: a correct archive of the same make is accepted', TAKEN, async () => {
    const entries: TarEntry[] = [
      { name: 'root/', type: 'directory' },
      { name: 'root/planted', content: 'hello\n' },
    ]
    const snapshot = (await sent(archiveOf(gzipSync(tarOf(entries))))) as { id: string }
    await using sandbox = await client.create({ snapshot: snapshot.id })
    assert.equal(await shell(sandbox, 'cat /planted'), 'hello\n')
    await client.snapshots.remove(snapshot.id)
  })

  for (const [what, entries] of Object.entries(hostile)) {
    test(
      `STATE-7 RL-43 an archive with ${what} is refused before anything starts, and nothing is left`,
      TAKEN,
      async () => {
        const left = (): string[] => [
          ...readdirSync(join(world.home, 'snapshots')),
          ...readdirSync(join(world.home, 'tmp')),
        ]
        const earlier = left()
        await assert.rejects(sent(archiveOf(gzipSync(tarOf(entries)))), (error) => isAgentPodError(error))
        assert.deepEqual(left(), earlier)
        assert.ok(!existsSync(outside))
      },
    )
  }

  test(
    'RL-43 a manifest that asks for root, for more parts than there are, or for nonsense is refused or ignored',
    TAKEN,
    async () => {
      const files = gzipSync(tarOf([{ name: 'root/', type: 'directory' }]))
      const sudo = { ...spec, environment: { ...spec.environment, sudo: true } }
      const taken = (await sent(archiveOf(files, { spec: sudo }))) as { id: string }
      await using sandbox = await client.create({ snapshot: taken.id })
      assert.match(await shell(sandbox, 'cat /proc/self/status'), /^NoNewPrivs:\s1$/m)
      await client.snapshots.remove(taken.id)
      for (const over of [
        { base: 'layers' },
        { parts: [] },
        { spec: { ...spec, lifetime: { ...spec.lifetime, ttlMs: -1 } } },
        { spec: { ...spec, environment: { ...spec.environment, base: '../x' } } },
        { extra: true },
      ])
        await assert.rejects(sent(archiveOf(files, over)), (error) => isAgentPodError(error))
    },
  )
})

test('FS-13 links that root inside leaves where podhost will write lead nowhere, in a start and in a copy', async () => {
  await using sandbox = await client.create({})
  await shell(sandbox, 'echo kept > ~/file')
  // Root inside leaves links where podhost will mount and write.
  await sandbox
    .exec('/bin/sh', {
      args: ['-c', 'rm -rf /srv /media; ln -s /etc /srv; rm -f /etc/hosts; ln -s /etc/shadow /etc/hosts'],
      user: 'root',
    })
    .wait()
  const shadow = execFileSync('sha256sum', ['/etc/shadow'])
  await sandbox.stop()
  await sandbox.start()
  assert.equal(await shell(sandbox, 'cat ~/file; test -L /etc/hosts && echo mine'), 'kept\nmine\n')
  const [copy] = await sandbox.fork()
  assert.ok(copy)
  await using fork = copy
  assert.equal(await shell(fork, 'cat ~/file; test -L /etc/hosts || echo replaced'), 'kept\nreplaced\n')
  assert.deepEqual(execFileSync('sha256sum', ['/etc/shadow']), shadow, 'nothing of the host was written to')
})

test('pausing and resuming from two sides at once leaves the sandbox in one of the two states, and it still works', async () => {
  await using sandbox = await client.create({})
  for (let round = 0; round < 5; round++)
    await Promise.allSettled([sandbox.pause(), sandbox.resume(), sandbox.pause(), sandbox.resume()])
  const { state } = (await client.get(sandbox.id)).info
  assert.ok(state === 'running' || state === 'paused', state)
  assert.equal(await shell(sandbox, 'echo fine'), 'fine\n')
})

test('forks of a sandbox that is being destroyed are one clear error, and nothing is left', async () => {
  const sandbox = await client.create({})
  const [, ...outcomes] = await Promise.allSettled([
    sandbox.destroy(),
    sandbox.fork({ count: 3 }),
    sandbox.snapshot({}),
  ])
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') assert.ok(isAgentPodError(outcome.reason), String(outcome.reason))
    else for (const one of [outcome.value].flat()) if ('destroy' in one) await one.destroy()
  }
  for (const { id } of await client.snapshots.list()) await client.snapshots.remove(id)
  assert.deepEqual(await heldOutside(world), { sandboxes: [neighbour.id], snapshots: [] })
})

/** A machine that is made ready after a create has its memory in the pool, which may grow for it. */
async function nextMachineWaits({ id }: Sandbox): Promise<void> {
  const log = join(world.home, 'logs', 'podhost.log')
  const waits = new RegExp(`${id}: create: [^]* machine \\S+ waits: `)
  await until('the next machine to wait', () => waits.test(readFileSync(log, 'utf8')), 60_000)
}

/** The space that a directory takes on the disk. Other tests use the disk at the same time. */
function allocatedBytes(directory: string): number {
  // Files that disappear meanwhile are reported, and do not matter.
  const { stdout } = spawnSync('du', ['-s', '-B1', directory], { encoding: 'utf8' })
  return Number(/^\d+/.exec(stdout)?.[0])
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}
