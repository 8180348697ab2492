// SECURITY: NW-21. What two servers could read differently never reaches the second one.

import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '../../util/clock.ts'
import { EgressFixture, readAll, testPolicy } from '../testing/egress-fixture.ts'

const H = 'Host: a.example\r\n'
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n'
const post = (headers: string, body = ''): string => `POST / HTTP/1.1\r\n${H}${headers}\r\n${body}`
const chunked = (body: string): string => post('Transfer-Encoding: chunked\r\n', body)

const MATRIX: Readonly<Record<string, string>> = {
  'both a length and a coding': post(
    'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n',
    `0\r\n\r\n${SMUGGLED}`,
  ),
  'a coding and then a length': post(
    'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n',
    `0\r\n\r\n${SMUGGLED}`,
  ),
  'two lengths': post('Content-Length: 0\r\nContent-Length: 44\r\n', SMUGGLED),
  'two equal lengths': post('Content-Length: 3\r\nContent-Length: 3\r\n', 'abc'),
  'a list of lengths': post('Content-Length: 3, 3\r\n', 'abc'),
  'a length with a sign': post('Content-Length: +3\r\n', 'abc'),
  'a negative length': post('Content-Length: -3\r\n', 'abc'),
  'a length with zeros before it': post('Content-Length: 003\r\n', 'abc'),
  'a length in hex': post('Content-Length: 0x3\r\n', 'abc'),
  'an empty length': post('Content-Length:\r\n'),
  'an endless length': post('Content-Length: 99999999999999999999999\r\n', 'abc'),
  'a length spelled with an underscore': post('Content_Length: 3\r\n', 'abc'),
  'a coding spelled with an underscore': post('Transfer_Encoding: chunked\r\n'),
  'an unknown coding': post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'),
  'a coding that is identity': post('Transfer-Encoding: identity\r\n', 'abc'),
  'two codings in one': post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
  'a coding before the last': post('Transfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'),
  'two coding headers': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
  'a coding with a space before the colon': post('Transfer-Encoding : chunked\r\n', '0\r\n\r\n'),
  'a coding with a tab behind it': post('Transfer-Encoding: chunked\x0b\r\n', '0\r\n\r\n'),
  'a coding on a folded line': post('Transfer-Encoding:\r\n chunked\r\n', '0\r\n\r\n'),
  'a coding in HTTP/1.0': `POST / HTTP/1.0\r\n${H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a folded header': `GET / HTTP/1.1\r\n${H}X: a\r\n b\r\n\r\n`,
  'bare line feeds': 'GET / HTTP/1.1\nHost: a.example\n\n',
  'a bare carriage return in a value': `GET / HTTP/1.1\r\n${H}X: a\rb\r\n\r\n`,
  'a NUL in a value': `GET / HTTP/1.1\r\n${H}X: a\0b\r\n\r\n`,
  'a control character in a value': `GET / HTTP/1.1\r\n${H}X: a\x01b\r\n\r\n`,
  'a header without a colon': `GET / HTTP/1.1\r\n${H}nothing\r\n\r\n`,
  'a header without a name': `GET / HTTP/1.1\r\n${H}: x\r\n\r\n`,
  'a space before the first header': 'GET / HTTP/1.1\r\n Host: a.example\r\n\r\n',
  'two hosts': `GET / HTTP/1.1\r\n${H}Host: evil.test\r\n\r\n`,
  'two equal hosts': `GET / HTTP/1.1\r\n${H}${H}\r\n`,
  'no host': 'GET / HTTP/1.1\r\n\r\n',
  'an empty host': 'GET / HTTP/1.1\r\nHost:\r\n\r\n',
  'a host with a user': 'GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n',
  'a host named in Connection': `GET / HTTP/1.1\r\n${H}Connection: close, host\r\n\r\n`,
  'a length named in Connection': post('Content-Length: 3\r\nConnection: content-length\r\n', 'abc'),
  'a chunk size with a sign': chunked('-1\r\nx\r\n0\r\n\r\n'),
  'a chunk size in 0x': chunked('0x1\r\nx\r\n0\r\n\r\n'),
  'a chunk size that overflows': chunked('fffffffffffffffffff\r\nx\r\n0\r\n\r\n'),
  'a chunk size with a space': chunked('1 \r\nx\r\n0\r\n\r\n'),
  'chunks with bare line feeds': chunked('1\nx\n0\n\n'),
  'a chunk extension without end': chunked(`1;${'a'.repeat(20_000)}\r\nx\r\n0\r\n\r\n`),
  'HTTP/0.9': `GET / HTTP/0.9\r\n${H}\r\n`,
  'HTTP/1.2': `GET / HTTP/1.2\r\n${H}\r\n`,
  'HTTP/2 without asking': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'a space in the path': `GET /a b HTTP/1.1\r\n${H}\r\n`,
  'a fragment in the path': `GET /a#b HTTP/1.1\r\n${H}\r\n`,
  'a path that is a star': `GET * HTTP/1.1\r\n${H}\r\n`,
  'an unknown expectation': `GET / HTTP/1.1\r\n${H}Expect: 200-maybe\r\n\r\n`,
  'a hundred and one headers': `GET / HTTP/1.1\r\n${H}${'X: y\r\n'.repeat(100)}\r\n`,
  'a head that is too long': `GET / HTTP/1.1\r\n${H}X: ${'y'.repeat(70_000)}\r\n\r\n`,
  'a websocket with a body': `GET / HTTP/1.1\r\n${H}Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc`,
  'two credentials': `GET / HTTP/1.1\r\n${H}Authorization: a\r\nAuthorization: b\r\n\r\n`,
}

describe('a request with', () => {
  let stage: EgressFixture
  let seen = ''
  before(async () => {
    let now = Date.now()
    const clock = { now: () => (now += 1000), after: systemClock.after }
    stage = await EgressFixture.open({ clock, policy: testPolicy(['a.example']) })
    stage.name('a.example', ['192.0.2.10'])
    const canary = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk) => {
        seen += chunk.toString('latin1')
        if (/(?:\r\n\r\n|abc)$/.test(seen)) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      })
    })
    await stage.place('192.0.2.10', 80, canary)
  })
  after(() => stage.close())

  test('positive control: a valid request arrives', async () => {
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    socket.write(`GET /fine HTTP/1.1\r\n${H}Connection: close\r\n\r\n`)
    assert.match(await readAll(socket), /^HTTP\/1\.1 200 OK[\s\S]*ok$/)
    assert.match(seen, /^GET \/fine HTTP\/1\.1\r\nHost: a\.example\r\n/)
  })

  assert.ok(Object.keys(MATRIX).length >= 30)
  for (const [name, bytes] of Object.entries(MATRIX))
    test(`a request with ${name} gets a 400, and its server sees nothing`, async () => {
      seen = ''
      const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
      socket.write(Buffer.from(bytes, 'latin1'))
      const answer = await readAll(socket)
      assert.match(answer, /^HTTP\/1\.1 4(?:00|21) [\s\S]*Connection: close\r\n/)
      assert.equal(seen, '')
    })

  const trailers = [
    'Host: evil.test',
    'Content-Length: 3',
    'Transfer-Encoding: chunked',
    'Authorization: x',
    'Cookie: a',
    'X-Api-Key: b',
  ]
  for (const trailer of trailers)
    test(`a request with the trailer ${trailer} is never completed`, async () => {
      seen = ''
      const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
      socket.write(chunked(`3\r\nabc\r\n0\r\n${trailer}\r\n\r\n`))
      assert.match(await readAll(socket), /^HTTP\/1\.1 400 /)
      assert.doesNotMatch(seen, /\r\n0\r\n/)
    })

  test('pipelined requests are each decided', async () => {
    seen = ''
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    const second = 'GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n'
    socket.write(post('Content-Length: 3\r\n', `abc${second}`))
    const answer = await readAll(socket)
    assert.match(answer, /HTTP\/1\.1 421 /)
    assert.doesNotMatch(seen, /\/2|evil/)
  })
})
