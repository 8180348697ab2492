import assert from 'node:assert/strict'
import { fails, inside, until } from './expect.mjs'

const BYTES = new Uint8Array([0, 255, 10, 13, 128, 0])
let counter = 0
const fresh = (name) => `/home/user/files-${++counter}/${name}`
const same = (bytes) => assert.deepEqual([...new Uint8Array(bytes)], [...BYTES])

async function collect(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(...chunk)
  return new Uint8Array(chunks)
}

export const cases = [
  [
    'files.write, files.read: text',
    async ({ shared }) => {
      const path = fresh('new directory/text.txt')
      const info = await shared.files.write(path, 'first: grüße')
      assert.equal(info.path, path)
      assert.equal(info.name, 'text.txt')
      assert.equal(await shared.files.read(path), 'first: grüße')
      await shared.files.write(path, 'second')
      assert.equal(await inside(shared, `cat '${path}'; stat -c %U '${path}'`), 'seconduser')
    },
  ],
  [
    'files.write, files.read: bytes',
    async ({ shared }) => {
      const path = fresh('bytes')
      await shared.files.write(path, BYTES.buffer)
      same(await shared.files.read(path, { format: 'bytes' }))
      assert.equal(await inside(shared, `stat -c %s ${path}`), String(BYTES.length))
    },
  ],
  [
    'files.write, files.read: blob',
    async ({ shared }) => {
      const path = fresh('blob')
      await shared.files.write(path, new Blob([BYTES]))
      same(await (await shared.files.read(path, { format: 'blob' })).arrayBuffer())
    },
  ],
  [
    'files.write, files.read: stream',
    async ({ shared }) => {
      const path = fresh('stream')
      await shared.files.write(path, new Blob([BYTES]).stream())
      same(await collect(await shared.files.read(path, { format: 'stream' })))
    },
  ],
  [
    'files.write: empty and large',
    async ({ shared }) => {
      const path = fresh('large')
      await shared.files.write(path, '')
      assert.equal(await shared.files.read(path), '')
      const large = 'x'.repeat(20 * 1024 * 1024)
      await shared.files.write(path, large)
      assert.equal(await inside(shared, `stat -c %s ${path}`), String(large.length))
      assert.equal((await shared.files.read(path)).length, large.length)
    },
  ],
  [
    'files.write: many at once',
    async ({ shared }) => {
      const [one, two] = [fresh('one.txt'), fresh('deep/two.txt')]
      const infos = await shared.files.write([
        { path: one, data: 'one' },
        { path: two, data: 'two' },
      ])
      assert.deepEqual(
        infos.map(({ path }) => path),
        [one, two],
      )
      assert.equal(await inside(shared, `cat ${one} ${two}`), 'onetwo')
    },
  ],
  [
    'files: relative paths and users',
    async ({ shared }) => {
      await shared.files.write('relative.txt', 'of the user')
      assert.equal(await shared.files.read('/home/user/relative.txt'), 'of the user')
      await shared.files.write('relative.txt', 'of root', { user: 'root' })
      assert.equal(await shared.files.read('/root/relative.txt', { user: 'root' }), 'of root')
      assert.equal(await inside(shared, 'sudo stat -c %U /root/relative.txt'), 'root')
    },
  ],
  [
    'files.list: depth',
    async ({ shared }) => {
      const path = fresh('tree')
      await shared.files.write(`${path}/a/b/c.txt`, 'c')
      await shared.files.write(`${path}/d.txt`, 'd')
      const names = async (options) =>
        (await shared.files.list(path, options)).map(({ path: at }) => at.slice(path.length + 1)).sort()
      assert.deepEqual(await names(), ['a', 'd.txt'])
      assert.deepEqual(await names({ depth: 3 }), ['a', 'a/b', 'a/b/c.txt', 'd.txt'])
      const [a, d] = (await shared.files.list(path)).sort((x, y) => (x.name < y.name ? -1 : 1))
      assert.equal(a.type, 'dir')
      assert.equal(d.type, 'file')
    },
  ],
  [
    'files.exists',
    async ({ shared }) => {
      const path = fresh('maybe')
      assert.equal(await shared.files.exists(path), false)
      await shared.files.write(path, 'x')
      assert.equal(await shared.files.exists(path), true)
    },
  ],
  [
    'files.getInfo',
    async ({ shared }) => {
      const path = fresh('info.txt')
      await shared.files.write(path, '12345')
      await shared.commands.run(`chmod 640 ${path}; ln -s ${path} ${path}.link`)
      const info = await shared.files.getInfo(path)
      assert.equal(info.name, 'info.txt')
      assert.equal(info.path, path)
      assert.equal(info.type, 'file')
      assert.equal(info.size, 5)
      assert.equal(info.owner, 'user')
      assert.equal(info.group, 'user')
      assert.equal(info.mode & 0o777, 0o640)
      assert.ok(Math.abs(info.modifiedTime.getTime() - Date.now()) < 60_000)
      assert.equal((await shared.files.getInfo(`${path}.link`)).symlinkTarget, path)
    },
  ],
  [
    'files.rename',
    async ({ shared, NotFoundError }) => {
      const [from, to] = [fresh('old'), fresh('new')]
      await shared.files.write(from, 'moved')
      await shared.files.makeDir(to.replace(/\/new$/, ''))
      assert.equal((await shared.files.rename(from, to)).path, to)
      assert.equal(await inside(shared, `cat ${to}; ls ${from} 2>/dev/null || echo gone`), 'movedgone')
      await fails(shared.files.rename(from, to), NotFoundError)
    },
  ],
  [
    'files.remove',
    async ({ shared }) => {
      const path = fresh('tree')
      await shared.files.write(`${path}/a/b.txt`, 'x')
      await shared.files.remove(path)
      assert.equal(await shared.files.exists(path), false)
    },
  ],
  [
    'files.makeDir',
    async ({ shared }) => {
      const path = fresh('a/b/c')
      assert.equal(await shared.files.makeDir(path), true)
      assert.equal(await shared.files.makeDir(path), false)
      assert.equal(await inside(shared, `stat -c '%F %U' ${path}`), 'directory user')
    },
  ],
  [
    'files.watchDir',
    async ({ shared }) => {
      const path = fresh('watched')
      await shared.files.makeDir(`${path}/sub`)
      const seen = []
      const handle = await shared.files.watchDir(path, ({ name, type }) => {
        seen.push(`${type} ${name}`)
      })
      await shared.files.write(`${path}/new.txt`, 'x')
      await until('the new file', () => seen.includes('create new.txt') && seen.includes('write new.txt'))
      await shared.commands.run(
        `chmod 600 ${path}/new.txt; mv ${path}/new.txt ${path}/name.txt; rm ${path}/name.txt`,
      )
      await until('the rest', () =>
        ['chmod new.txt', 'rename new.txt', 'remove name.txt'].every((one) => seen.includes(one)),
      )
      await shared.files.write(`${path}/sub/deep.txt`, 'x')
      await handle.stop()
      assert.ok(!seen.some((one) => one.includes('deep.txt')), seen.join(', '))
      const count = seen.length
      await shared.files.write(`${path}/after.txt`, 'x')
      assert.equal(seen.length, count, 'nothing is heard after stop')
    },
  ],
  [
    'files.watchDir: recursive',
    async ({ shared }) => {
      const path = fresh('watched')
      await shared.files.makeDir(`${path}/sub`)
      const seen = []
      const handle = await shared.files.watchDir(path, ({ name, type }) => seen.push(`${type} ${name}`), {
        recursive: true,
      })
      await shared.files.write(`${path}/sub/deep.txt`, 'x')
      await until('the deep file', () => seen.includes('create sub/deep.txt'))
      await shared.commands.run(`mkdir -p ${path}/later; sleep 0.2; touch ${path}/later/one.txt`)
      await until('a file in a directory made later', () => seen.includes('create later/one.txt'))
      await handle.stop()
    },
  ],
]
