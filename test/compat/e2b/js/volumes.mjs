import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { fails, inside } from './expect.mjs'

const hasVolumes = ({ Volume }) => Volume !== undefined

/** A volume that is destroyed afterwards, with the sandboxes that mount it. */
async function withVolume({ Volume }, work) {
  const volume = await Volume.create(`case-${randomUUID().slice(0, 8)}`)
  try {
    await work(volume)
  } finally {
    await Volume.destroy(volume.volumeId)
  }
}

export const cases = [
  [
    'Volume.create, list, getInfo, connect, destroy',
    async ({ Volume, VolumeNotFoundError, VolumeError }) => {
      const name = `case-${randomUUID().slice(0, 8)}`
      const volume = await Volume.create(name)
      assert.equal(volume.name, name)
      assert.ok((await Volume.list()).some((one) => one.volumeId === volume.volumeId && one.name === name))
      assert.equal((await Volume.getInfo(volume.volumeId)).name, name)
      assert.deepEqual(await (await Volume.connect(volume.volumeId)).list('/'), [])
      await fails(Volume.create(name), VolumeError, /already/)
      assert.equal(await Volume.destroy(volume.volumeId), true)
      assert.equal(await Volume.destroy(volume.volumeId), false)
      await fails(Volume.getInfo(volume.volumeId), VolumeNotFoundError)
    },
    hasVolumes,
  ],
  [
    'Volume: files',
    async (world) =>
      withVolume(world, async (volume) => {
        const written = await volume.writeFile('/dir/file.txt', 'text')
        assert.deepEqual([written.name, written.path, written.size], ['file.txt', '/dir/file.txt', 4])
        assert.ok(Math.abs(Date.now() - written.mtime.getTime()) < 60_000)
        assert.equal(await volume.readFile('dir/file.txt'), 'text')
        await volume.writeFile('/dir/file.txt', 'other')
        assert.equal(await volume.readFile('/dir/file.txt'), 'other')
        const bytes = new Uint8Array(3_000_000).fill(7)
        await volume.writeFile('/bytes', new Blob([bytes]))
        assert.equal((await volume.readFile('/bytes', { format: 'bytes' })).length, bytes.length)
        let length = 0
        for await (const chunk of await volume.readFile('/bytes', { format: 'stream' }))
          length += chunk.length
        assert.equal(length, bytes.length)
        assert.equal(await volume.exists('/dir'), true)
        assert.equal(await volume.exists('/nowhere'), false)
        await volume.remove('/bytes')
        assert.equal(await volume.exists('/bytes'), false)
      }),
    hasVolumes,
  ],
  [
    'Volume: directories and metadata',
    async (world) =>
      withVolume(world, async (volume) => {
        const { VolumeError, VolumePathNotFoundError } = world
        const made = await volume.makeDir('/a/b', { force: true, mode: 0o700, uid: 0, gid: 0 })
        assert.deepEqual([made.type, made.mode & 0o777, made.uid, made.gid], ['directory', 0o700, 0, 0])
        await fails(volume.makeDir('/x/y'), VolumePathNotFoundError)
        await fails(volume.makeDir('/a'), VolumeError, /exists/)
        await volume.writeFile('/a/file', 'x')
        const found = await volume.list('/', { depth: 2 })
        assert.deepEqual(found.map(({ path, type }) => `${path} ${type}`).toSorted(), [
          '/a directory',
          '/a/b directory',
          '/a/file file',
        ])
        assert.deepEqual(
          (await volume.list('/')).map(({ name }) => name),
          ['a'],
        )
        const changed = await volume.updateMetadata('/a/file', { mode: 0o600, uid: 1000, gid: 1000 })
        assert.deepEqual([changed.mode & 0o777, changed.uid], [0o600, 1000])
        await volume.remove('/a')
        await fails(volume.list('/a'), VolumePathNotFoundError)
        await fails(volume.getInfo('/a'), VolumePathNotFoundError)
        await fails(volume.remove('/a'), VolumePathNotFoundError)
        await fails(volume.readFile('/../etc/passwd'), VolumeError)
      }),
    hasVolumes,
  ],
  [
    'Volume: mounted in sandboxes',
    async (world) =>
      withVolume(world, async (volume) => {
        const { Sandbox, Volume, VolumeError, SandboxError } = world
        await volume.writeFile('/from-outside', 'one')
        const first = await Sandbox.create({ volumeMounts: { '/mnt/data': volume } })
        assert.equal(await inside(first, 'cat /mnt/data/from-outside'), 'one')
        assert.deepEqual((await first.getInfo()).volumeMounts, [{ name: volume.name, path: '/mnt/data' }])
        await inside(first, 'echo two > /mnt/data/from-inside')
        await fails(Volume.destroy(volume.volumeId), VolumeError, /mounted/)
        await first.kill()
        assert.equal(await volume.readFile('/from-inside'), 'two\n')
        const second = await Sandbox.create({ volumeMounts: { '/other': volume.name } })
        assert.equal(await inside(second, 'cat /other/from-inside'), 'two')
        await second.kill()
        await fails(
          Sandbox.create({ volumeMounts: { '/data': 'no-such-volume' } }),
          SandboxError,
          /no volume/,
        )
        await fails(Sandbox.create({ volumeMounts: { '/etc': volume } }), SandboxError, /own \/etc/)
      }),
    hasVolumes,
  ],
]
