// Every archive here could come out of a sandbox. Whatever it holds, nothing lands outside the directory it
// is unpacked in.

import assert from 'node:assert/strict'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { type Extracted, extract, extractFile } from './untar.ts'

let top = ''
let root = ''
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'agentpod-untar-'))
  root = join(top, 'root')
  mkdirSync(root)
  writeFileSync(join(top, 'victim'), 'untouched')
})
afterEach(() => {
  assert.equal(readFileSync(join(top, 'victim'), 'utf8'), 'untouched')
  assert.deepEqual(readdirSync(top).sort(), ['root', 'victim'])
  rmSync(top, { recursive: true })
})

interface Member {
  readonly name: string
  readonly type?: string
  readonly body?: string
  readonly link?: string
  readonly mode?: number
  /** Raw text of the size field, for numbers that are lies. */
  readonly size?: string | Buffer
  readonly hasWrongSum?: boolean
}

function member(m: Member): Buffer {
  const body = Buffer.from(m.body ?? '')
  const block = Buffer.alloc(512)
  block.write(m.name, 0, 100)
  block.write(`${(m.mode ?? 0o644).toString(8).padStart(7, '0')}\0`, 100)
  block.write('0000000\0', 108)
  block.write('0000000\0', 116)
  const size = m.size ?? `${body.length.toString(8).padStart(11, '0')}\0`
  Buffer.from(size).copy(block, 124, 0, 12)
  block.write('00000000000\0', 136)
  block.fill(' ', 148, 156)
  block.write(m.type ?? '0', 156)
  block.write(m.link ?? '', 157, 100)
  block.write('ustar\u000000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0) + (m.hasWrongSum ? 1 : 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([block, body, Buffer.alloc((512 - (body.length % 512)) % 512)])
}

function pax(records: Readonly<Record<string, string>>): Buffer {
  const body = Object.entries(records).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`
    let length = Buffer.byteLength(rest)
    while (String(length).length + Buffer.byteLength(rest) !== length)
      length = String(length).length + Buffer.byteLength(rest)
    return `${length}${rest}`
  })
  return member({ name: 'pax', type: 'x', body: body.join('') })
}

function archive(...parts: readonly (Buffer | Member)[]): Buffer {
  return Buffer.concat([
    ...parts.map((part) => (Buffer.isBuffer(part) ? part : member(part))),
    Buffer.alloc(1024),
  ])
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

function unpack(...parts: readonly (Buffer | Member)[]): Promise<Extracted> {
  return extract(once(archive(...parts)), root)
}

const GOOD: Member = { name: 'good', body: 'fine' }

/** The control: what follows a hostile entry still arrives, so that nothing was refused by falling over. */
async function skips(...parts: readonly (Buffer | Member)[]): Promise<Extracted> {
  const result = await unpack(...parts, GOOD)
  assert.equal(readFileSync(join(root, 'good'), 'utf8'), 'fine')
  return result
}

test('an honest archive is unpacked completely', async () => {
  const result = await unpack(
    { name: 'dir/', type: '5' },
    { name: 'dir/run', body: 'go', mode: 0o755 },
    { name: 'made/on/the/way', body: 'deep' },
    { name: 'dir/link', type: '2', link: '../made/on' },
    { name: './dotted', body: 'dot' },
    pax({ path: 'Grüße' }),
    { name: 'short', body: 'hallo' },
    GOOD,
  )
  assert.deepEqual(result, { files: 6, bytes: 18, skipped: [] })
  assert.equal(lstatSync(join(root, 'dir/run')).mode & 0o777, 0o755)
  assert.equal(readFileSync(join(root, 'dir/link/the/way'), 'utf8'), 'deep')
  assert.equal(readFileSync(join(root, 'Grüße'), 'utf8'), 'hallo')
  assert.equal(readFileSync(join(root, 'dotted'), 'utf8'), 'dot')
})

describe('names that point outside are skipped', () => {
  const NAMES = [
    '/victim',
    '../victim',
    'a/../../victim',
    './../victim',
    '..',
    'a/b/../../../victim',
    '//victim',
    '',
  ]
  for (const name of NAMES) {
    test(`the name ${JSON.stringify(name)} is skipped`, async () => {
      const { skipped } = await skips({ name, body: 'evil' })
      assert.deepEqual(
        skipped.map(({ path }) => path),
        [name],
      )
    })
    test(`the name ${JSON.stringify(name)} in a pax header is skipped`, async () => {
      const { skipped } = await skips(pax({ path: name }), { name: 'innocent', body: 'evil' })
      assert.equal(skipped.length, 1)
      assert.ok(!existsSync(join(root, 'innocent')))
    })
    test(`the name ${JSON.stringify(name)} of a directory is skipped`, async () => {
      const { skipped } = await skips({ name, type: '5' })
      assert.equal(skipped.length, 1)
    })
  }

  test('a pax path with a NUL byte is skipped', async () => {
    const { skipped } = await skips(pax({ path: 'a\0b' }), { name: 'x', body: 'evil' })
    assert.equal(skipped.length, 1)
  })

  test('a name that points outside through the prefix field is skipped', async () => {
    const block = member({ name: 'victim', body: 'evil' })
    block.write('..', 345)
    block.fill(' ', 148, 156)
    const sum = block.subarray(0, 512).reduce((total, byte) => total + byte, 0)
    block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    const { skipped } = await skips(block)
    assert.deepEqual(skipped, [{ path: '../victim', why: 'its name points outside the directory' }])
  })

  test('an absurdly long name is skipped', async () => {
    const { skipped } = await skips(pax({ path: 'a/'.repeat(3000) }), { name: 'x', body: 'evil' })
    assert.equal(skipped.length, 1)
  })
})

describe('links in an archive', () => {
  const OUTSIDE = ['/etc', '..', '../victim', 'a/../../victim', '../../root/../victim', 'a/..', './x/..']
  for (const link of OUTSIDE) {
    test(`a link to ${link} is skipped`, async () => {
      const { skipped } = await skips({ name: 'link', type: '2', link })
      assert.equal(skipped.length, 1)
      assert.ok(!existsSync(join(root, 'link')))
    })
  }

  test('a link target from a pax header is checked', async () => {
    const { skipped } = await skips(pax({ linkpath: '../victim' }), { name: 'link', type: '2', link: 'good' })
    assert.equal(skipped.length, 1)
  })

  test('a link that stays inside is created', async () => {
    await unpack(
      { name: 'd/e/f', body: 'x' },
      { name: 'd/l', type: '2', link: '../d/e' },
      { name: 'd/m', type: '2', link: '..' },
    )
    assert.equal(readlinkSync(join(root, 'd/l')), '../d/e')
    assert.equal(realpathSync(join(root, 'd/m')), realpathSync(root))
  })

  test('a link through other links cannot point outside', async () => {
    await unpack(
      { name: 'here', type: '2', link: '.' },
      { name: 'up', type: '2', link: 'here/..' },
      { name: 'd/back', type: '2', link: '..' },
      { name: 'upper', type: '2', link: 'd/back/..' },
    )
    for (const name of readdirSync(root)) {
      const real = realpathSync(join(root, name))
      assert.ok(
        real === realpathSync(root) || real.startsWith(`${realpathSync(root)}/`),
        `${name} is ${real}`,
      )
    }
  })

  for (const [what, entry] of [
    ['a file', { name: 'link/evil', body: 'evil' }],
    ['a directory', { name: 'link/evil/', type: '5' }],
    ['a link', { name: 'link/evil', type: '2', link: 'x' }],
    ['a file two levels down', { name: 'link/a/evil', body: 'evil' }],
  ] as const) {
    test(`a link is not followed by ${what}`, async () => {
      const { skipped } = await skips(
        { name: 'dir/', type: '5' },
        { name: 'link', type: '2', link: 'dir' },
        entry,
      )
      assert.deepEqual(skipped, [{ path: entry.name, why: 'a link or a file is in the way' }])
      assert.deepEqual(readdirSync(join(root, 'dir')), [])
    })
  }

  test('an existing link is replaced and not followed', async () => {
    symlinkSync(top, join(root, 'old'))
    symlinkSync(join(top, 'victim'), join(root, 'file'))
    const { skipped } = await skips({ name: 'old/victim', body: 'evil' }, { name: 'file', body: 'mine' })
    assert.equal(skipped.length, 1)
    assert.ok(lstatSync(join(root, 'file')).isFile())
    assert.equal(readFileSync(join(root, 'file'), 'utf8'), 'mine')
  })

  test('a link from the archive is replaced by the next entry of its name and not written through', async () => {
    await skips(
      { name: 'inner', body: 'first' },
      { name: 'l', type: '2', link: 'inner' },
      { name: 'l', body: 'second' },
    )
    assert.equal(readFileSync(join(root, 'inner'), 'utf8'), 'first')
    assert.equal(readFileSync(join(root, 'l'), 'utf8'), 'second')
  })
})

describe('entries that are no file, directory or link are skipped', () => {
  const TYPES: readonly [type: string, what: string][] = [
    ['1', 'a hard link'],
    ['3', 'a character device'],
    ['4', 'a block device'],
    ['6', 'a pipe'],
    ['S', 'a sparse file'],
    ['Z', 'nobody knows what'],
  ]
  for (const [type, what] of TYPES) {
    test(`an entry is skipped: ${what}`, async () => {
      const { skipped } = await skips({ name: 'thing', type, link: '/etc/passwd' })
      assert.deepEqual(skipped, [{ path: 'thing', why: 'not a plain file' }])
      assert.ok(!existsSync(join(root, 'thing')))
    })
  }
})

test('setuid, setgid and sticky bits are dropped', async () => {
  await unpack({ name: 'suid', body: 'x', mode: 0o7755 })
  assert.equal(lstatSync(join(root, 'suid')).mode & 0o7777, 0o755)
})

test('a global header changes nothing', async () => {
  const { skipped } = await skips({ name: 'g', type: 'g', body: '18 path=../victim\n' })
  assert.deepEqual(skipped, [])
})

test('a pax header is for the next entry only', async () => {
  await unpack(pax({ path: 'renamed' }), { name: 'a', body: '1' }, { name: 'b', body: '2' })
  assert.deepEqual(readdirSync(root).sort(), ['b', 'renamed'])
})

describe('broken archives are rejected', () => {
  const BROKEN: readonly { name: string; bytes: () => Buffer }[] = [
    { name: 'a wrong sum', bytes: () => archive({ ...GOOD, hasWrongSum: true }) },
    { name: 'a size that is no number', bytes: () => archive({ ...GOOD, size: 'zzzzzzzzzzz\0' }) },
    { name: 'a negative size', bytes: () => archive({ ...GOOD, size: '-0000000001\0' }) },
    { name: 'a binary size', bytes: () => archive({ ...GOOD, size: Buffer.alloc(12, 0xff) }) },
    { name: 'the largest octal size', bytes: () => archive({ ...GOOD, size: '777777777777' }) },
    { name: 'a header cut short', bytes: () => member(GOOD).subarray(0, 300) },
    {
      name: 'a body cut short',
      bytes: () => member({ name: 'x', body: 'y'.repeat(2000) }).subarray(0, 1000),
    },
    { name: 'padding cut short', bytes: () => member(GOOD).subarray(0, 600) },
    { name: 'text', bytes: () => Buffer.from('<html>not an archive</html>'.repeat(40)) },
    { name: 'a pax size below zero', bytes: () => archive(pax({ size: '-5' }), GOOD) },
    { name: 'a pax size with a fraction', bytes: () => archive(pax({ size: '1.5' }), GOOD) },
    { name: 'a pax size in another base', bytes: () => archive(pax({ size: '0x10' }), GOOD) },
    { name: 'a pax size past all numbers', bytes: () => archive(pax({ size: '9'.repeat(400) }), GOOD) },
    { name: 'a pax size past the end', bytes: () => archive(pax({ size: '99999999' }), GOOD) },
    {
      name: 'a pax record without a length',
      bytes: () => archive({ name: 'p', type: 'x', body: 'path=a\n' }),
    },
    { name: 'a pax record of no length', bytes: () => archive({ name: 'p', type: 'x', body: '0 path=a\n' }) },
    {
      name: 'a pax record past its header',
      bytes: () => archive({ name: 'p', type: 'x', body: '99 path=a\n' }),
    },
    {
      name: 'a pax header without an end',
      bytes: () => archive({ name: 'p', type: 'x', size: '77777777777\0' }),
    },
  ]
  for (const { name, bytes } of BROKEN) {
    test(`a broken archive is rejected: ${name}`, async () => {
      await assert.rejects(
        extract(once(bytes()), root),
        (error) => isAgentPodError(error, 'data_loss') && error.reason === 'archive.malformed',
      )
    })
  }
})

test('an archive without its final blocks is accepted if its last entry is complete', async () => {
  const result = await extract(once(member(GOOD)), root)
  assert.equal(result.files, 1)
})

test('a directory in the place of a file is a conflict', async () => {
  mkdirSync(join(root, 'good'))
  await assert.rejects(unpack(GOOD), (error) => isAgentPodError(error, 'conflict'))
})

test('random damage never writes outside', async () => {
  const random = new SeededRandom(99)
  const honest = archive(
    { name: 'dir/a', body: 'x'.repeat(700) },
    { name: 'l', type: '2', link: 'dir' },
    pax({ path: 'long/name' }),
    { name: 'b', body: 'y' },
  )
  for (let round = 0; round < 400; round++) {
    const bytes = Buffer.from(honest)
    for (let hit = 0; hit < 3; hit++) bytes[random.below(bytes.length)] = random.below(256)
    rmSync(root, { recursive: true })
    mkdirSync(root)
    await extract(once(bytes), root).catch((error) => assert.ok(error instanceof Error))
  }
})

describe('extracting one file', () => {
  test('a single extracted file is written to the requested path, whatever its name', async () => {
    const target = join(root, 'target')
    await extractFile(once(archive({ name: '../victim', body: 'copied' })), target)
    assert.equal(readFileSync(target, 'utf8'), 'copied')
  })

  test('extracting a single file replaces a link and does not follow it', async () => {
    const target = join(root, 'target')
    symlinkSync(join(top, 'victim'), target)
    await extractFile(once(archive(GOOD)), target)
    assert.ok(lstatSync(target).isFile())
  })

  for (const type of ['1', '2', '3', '5']) {
    test(`extracting a single file refuses an entry of type ${type}`, async () => {
      await assert.rejects(
        extractFile(once(archive({ name: 'x', type, link: '/etc/passwd' })), join(root, 'target')),
        (error) => isAgentPodError(error, 'data_loss'),
      )
      assert.deepEqual(readdirSync(root), [])
    })
  }
})
