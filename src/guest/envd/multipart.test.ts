import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MultipartError, readParts } from './multipart.ts'

const FORM = [
  'preamble\r\n--b-1\r\n',
  'Content-Disposition: form-data; name="file"; filename="/tmp/a \\"b\\""\r\nContent-Type: text/plain\r\n\r\n',
  'one\r\n--b-\r\n\r\n--b-1  \r\n',
  "content-disposition: form-data; name=other; filename*=UTF-8''%C3%BC%2F1\r\n\r\n",
  '\r\n--b-1\r\n\r\nnameless\r\n--b-1--\r\nepilogue',
].join('')

async function parts(form: Buffer | string, chunkBytes: number, boundary = 'b-1'): Promise<unknown[]> {
  const bytes = Buffer.from(form)
  const source = (async function* () {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes)
  })()
  const found: unknown[] = []
  for await (const { name, filename, content } of readParts(source, boundary)) {
    const chunks: Buffer[] = []
    for await (const chunk of content) chunks.push(chunk)
    found.push([name, filename, Buffer.concat(chunks).toString()])
  }
  return found
}

describe('a form', () => {
  for (const chunkBytes of [1, 2, 3, 7, 64, 10_000])
    test(`a form is read in parts from chunks of ${chunkBytes} bytes`, async () => {
      assert.deepEqual(await parts(FORM, chunkBytes), [
        ['file', '/tmp/a "b"', 'one\r\n--b-\r\n'],
        ['other', 'ü/1', ''],
        ['', '', 'nameless'],
      ])
    })

  test('unread parts of a form are skipped', async () => {
    const names: string[] = []
    for await (const { name } of readParts(
      (async function* () {
        yield Buffer.from(FORM)
      })(),
      'b-1',
    ))
      names.push(name)
    assert.deepEqual(names, ['file', 'other', ''])
  })

  test('a large part of a form is not held in memory', async () => {
    const large = Buffer.alloc(5_000_000, '\r\n--b-')
    const form = Buffer.concat([
      Buffer.from('--b-1\r\nContent-Disposition: form-data; name="file"\r\n\r\n'),
      large,
      Buffer.from('\r\n--b-1--'),
    ])
    const [part] = (await parts(form, 65_536)) as [string, string, string][]
    assert.equal(part?.[2].length, large.length)
  })

  for (const [what, form] of Object.entries({
    'is empty': '',
    'has no boundary': 'x'.repeat(1000),
    'ends inside a part': FORM.slice(0, 120),
    'ends inside a header': FORM.slice(0, 40),
    'has words behind a boundary': '--b-1 words\r\n\r\nx\r\n--b-1--',
    'has a line without end': `--b-1\r\n${'x'.repeat(100_000)}`,
    'has headers without end': `--b-1\r\n${'a: b\r\n'.repeat(10_000)}`,
  }))
    test(`a form that ${what} is refused`, async () => {
      await assert.rejects(parts(form, 1000), MultipartError)
    })
})
