import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { WriteStream } from 'node:tty'
import { safeOutput } from './safe-output.ts'

async function shown(pieces: readonly (string | Buffer)[], isTTY = true, isRaw = false): Promise<string> {
  const out = Object.assign(new PassThrough(), { isTTY })
  const safe = safeOutput(out as unknown as WriteStream, isRaw)
  for (const piece of pieces) await safe.write(Buffer.from(piece))
  await safe.end()
  return String(out.read() ?? '')
}

test('a terminal shows what it would obey, and colours and lines pass', async () => {
  assert.equal(await shown(['\u001b[1;31mred\u001b[0m\r\n\tx\n']), '\u001b[1;31mred\u001b[0m\r\n\tx\n')
  assert.equal(await shown(['\u001b]52;c;ZXZpbA==\u0007']), '\\u001b]52;c;ZXZpbA==\\u0007')
  assert.equal(await shown(['\u001b[2J\u001bc\u009b5n']), '\\u001b[2J\\u001bc\\u009b5n')
  assert.equal(await shown(['10%\r20%\n']), '10%\n20%\n')
})

test('pieces may end anywhere', async () => {
  assert.equal(await shown(['\u001b', '[3', '1mred', '\r', '\n']), '\u001b[31mred\r\n')
  assert.equal(await shown(['\u001b', ']52;c;x', '\u0007']), '\\u001b]52;c;x\\u0007')
  const bytes = Buffer.from('grüße\u009b')
  assert.equal(await shown([...bytes].map((byte) => Buffer.from([byte]))), 'grüße\\u009b')
  assert.equal(await shown(['end\u001b']), 'end\\u001b')
})

test('a pipe, and who asks for it, gets every byte', async () => {
  const text = '\u001b]52;c;x\u0007\r'
  assert.equal(await shown([text], false), text)
  assert.equal(await shown([text], true, true), text)
})
