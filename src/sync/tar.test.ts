import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { listFiles } from './project-files.ts'
import { packFiles } from './tar.ts'
import { extract } from './untar.ts'

const LONG = `${'long-directory/'.repeat(12)}file`
const FILES: Readonly<Record<string, Buffer>> = {
  empty: Buffer.alloc(0),
  small: Buffer.from('hello'),
  'exactly-a-block': Buffer.alloc(512, 'b'),
  'one-more': Buffer.alloc(513, 'c'),
  large: Buffer.alloc(600_001, 'd'),
  'Grüße 日本語 😀': Buffer.from('unicode'),
  'new\nline': Buffer.from('odd'),
  [LONG]: Buffer.from('deep'),
  ['n'.repeat(100)]: Buffer.from('a hundred'),
  ['m'.repeat(101)]: Buffer.from('and one'),
  'sp ace/-dash': Buffer.from('dash'),
}

let top = ''
let from = ''
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'agentpod-tar-'))
  from = join(top, 'from')
  for (const [path, content] of Object.entries(FILES)) {
    mkdirSync(dirname(join(from, path)), { recursive: true })
    writeFileSync(join(from, path), content)
  }
  chmodSync(join(from, 'small'), 0o751)
  utimesSync(join(from, 'small'), 1_600_000_000, 1_600_000_000)
  symlinkSync('small', join(from, 'link'))
  symlinkSync(LONG, join(from, 'long-link'))
  symlinkSync('Grüße 日本語 😀', join(from, 'ünicode-link'))
  mkdirSync(join(from, 'bare'))
})
afterEach(() => rmSync(top, { recursive: true }))

async function packed(): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of packFiles(from, await listFiles(from))) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function assertSame(to: string): void {
  for (const [path, content] of Object.entries(FILES))
    assert.ok(readFileSync(join(to, path)).equals(content), path)
  assert.equal(readlinkSync(join(to, 'link')), 'small')
  assert.equal(readlinkSync(join(to, 'long-link')), LONG)
  assert.equal(readlinkSync(join(to, 'ünicode-link')), 'Grüße 日本語 😀')
  assert.ok(statSync(join(to, 'bare')).isDirectory())
  assert.equal(statSync(join(to, 'small')).mode & 0o777, 0o751)
}

test('the system’s tar reads what we write: names, modes, times, links and bytes', async () => {
  const archive = join(top, 'a.tar')
  writeFileSync(archive, await packed())
  const listing = execFileSync('tar', ['tvf', archive, '--quoting-style=literal'], {
    env: { ...process.env, TZ: 'UTC', LC_ALL: 'C.UTF-8' },
    encoding: 'utf8',
  })
  assert.match(listing, /-rwxr-x--x 0\/0 +5 2020-09-13 12:26 small/)
  assert.match(listing, /link -> small/)
  const to = join(top, 'to')
  mkdirSync(to)
  execFileSync('tar', ['xpf', archive, '-C', to])
  assertSame(to)
  assert.equal(statSync(join(to, 'small')).mtimeMs, 1_600_000_000_000)
})

test('our reader reads what we write, in chunks of any size', async () => {
  const bytes = await packed()
  for (const size of [199, 511, 512, 513, 100_000, bytes.length]) {
    const to = join(top, `to-${size}`)
    mkdirSync(to)
    async function* chunks(): AsyncGenerator<Buffer> {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    }
    const { skipped, files } = await extract(chunks(), to)
    assert.deepEqual(skipped, [])
    assert.equal(files, Object.keys(FILES).length + 3)
    assertSame(to)
  }
})

test('our reader reads what the system’s tar writes', async () => {
  for (const format of ['ustar', 'pax']) {
    const archive = join(top, `${format}.tar`)
    const out = format === 'ustar' ? ['--exclude=long-*', '--exclude=mmm*', '--exclude=nnn*'] : []
    execFileSync('tar', ['cf', archive, `--format=${format}`, '-C', from, ...out, '.'], { stdio: 'pipe' })
    const to = join(top, `to-${format}`)
    mkdirSync(to)
    async function* whole(): AsyncGenerator<Buffer> {
      yield readFileSync(archive)
    }
    const { skipped } = await extract(whole(), to)
    assert.deepEqual(skipped, [])
    if (format === 'pax') assertSame(to)
    else assert.ok(readFileSync(join(to, 'large')).equals(FILES['large'] ?? Buffer.alloc(0)))
  }
})

test('an archive without files is valid', async () => {
  const chunks: Buffer[] = []
  for await (const chunk of packFiles(from, [])) chunks.push(chunk as Buffer)
  assert.equal(Buffer.concat(chunks).length, 1024)
})

test('packing skips a file that disappeared, and fails for one that cannot be read', async () => {
  async function pack(...paths: readonly string[]): Promise<number> {
    let size = 0
    for await (const chunk of packFiles(from, paths)) size += (chunk as Buffer).length
    return size
  }
  assert.equal(await pack('none', 'small'), 512 + 512 + 1024)
  if (process.getuid?.() === 0) return
  chmodSync(join(from, 'small'), 0)
  await assert.rejects(pack('small'), { reason: 'project.unreadable' })
})
