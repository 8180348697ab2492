import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { EgressFixture, readAll, SANDBOX } from '../testing/egress-fixture.ts'
import { MOST_UNFINISHED_LINES } from './podd-connections.ts'

async function until(is: () => boolean): Promise<void> {
  for (let at = 0; at < 300 && !is(); at++) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.equal(is(), true)
}

test('CP-16 unfinished header lines of podd are limited and count as connections of the sandbox', async () => {
  const stage = await EgressFixture.open()
  try {
    const begin = async (): Promise<Socket> => (await stage.podd.handOver('{')).resume()
    const held = await Promise.all(Array.from({ length: MOST_UNFINISHED_LINES }, begin))
    await until(() => stage.egress.counts(SANDBOX).open === MOST_UNFINISHED_LINES)
    for (let at = 0; at < 40; at++) {
      const one = await begin()
      if (!one.destroyed)
        await new Promise((resolve) => one.once('close', resolve).once('end', () => one.destroy()))
    }
    assert.ok(held.every(({ destroyed }) => !destroyed))
    assert.equal(stage.egress.counts(SANDBOX).open, MOST_UNFINISHED_LINES)
    for (const socket of held) socket.destroy()
    await until(() => stage.egress.counts(SANDBOX).open === 0)
    await until(() => stage.podd.waiting === 8)
    const one = await stage.podd.proxy()
    one.write('GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
    assert.match(await readAll(one), /^HTTP\/1\.1 403 /)
  } finally {
    await stage.close()
  }
})

test('a header line in pieces is read, and the pool is refilled meanwhile', async () => {
  const stage = await EgressFixture.open()
  try {
    const slow = await stage.podd.handOver('{"v":1,')
    await until(() => stage.podd.waiting === 8)
    assert.equal(stage.egress.counts(SANDBOX).open, 1)
    slow.write('"kind":"proxy"}\nGET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
    assert.match(await readAll(slow), /^HTTP\/1\.1 403 /)
  } finally {
    await stage.close()
  }
})
