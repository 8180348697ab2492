import assert from 'node:assert/strict'
import { createServer, request } from 'node:http'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { dialSocket } from '../reach/dial.ts'
import { IDLE_MS } from '../reach/splice.ts'
import { UpstreamPool } from './upstream-pool.ts'

interface Answered {
  readonly text: string
  readonly socket: Socket
  readonly isReused: boolean
}

class Site {
  readonly pool = new UpstreamPool()
  readonly sockets = new Set<Socket>()
  readonly #server: Server
  connections = 0

  constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket: Socket) => {
      this.connections++
      this.sockets.add(socket)
    })
  }

  listen(): Promise<void> {
    return new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  ask(): Promise<Answered> {
    const { port } = this.#server.address() as { port: number }
    const dial = (): Promise<Socket> =>
      dialSocket({ host: '127.0.0.1', port }, new AbortController().signal).then((socket) => {
        socket.allowHalfOpen = false
        return socket
      })
    return new Promise((resolve, reject) => {
      const asked = request({ agent: this.pool.get('key', dial), path: '/', timeout: IDLE_MS })
      asked.on('error', reject)
      asked.on('response', (answer) => {
        let text = ''
        const { socket } = answer
        answer.setEncoding('latin1')
        answer.on('data', (some: string) => {
          text += some
        })
        answer.on('end', () => resolve({ text, socket, isReused: asked.reusedSocket }))
      })
      asked.end()
    })
  }

  close(): Promise<void> {
    this.pool.close()
    for (const socket of this.sockets) socket.destroy()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}

/** The connection becomes free just after the end of the response. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

describe('connections to servers', () => {
  test('are used again one request after the other, each with the time limit of a request', async () => {
    const site = new Site(createServer((_, answer) => answer.end('ok')))
    await site.listen()
    try {
      for (let n = 0; n < 5; n++) {
        const { text, socket, isReused } = await site.ask()
        assert.equal(text, 'ok')
        assert.equal(isReused, n > 0)
        await settled()
        assert.equal(socket.timeout, 4000)
        const next = site.ask()
        assert.equal(socket.timeout, IDLE_MS)
        await next
        await settled()
      }
      assert.equal(site.connections, 1)
    } finally {
      await site.close()
    }
  })

  test('are at most 64 to a site, and further requests wait', async () => {
    const held: (() => void)[] = []
    const site = new Site(createServer((_, answer) => held.push(() => answer.end('ok'))))
    await site.listen()
    try {
      const asked = Array.from({ length: 64 }, () => site.ask())
      while (held.length < 64) await settled()
      for (let n = 0; n < 6; n++) asked.push(site.ask())
      await settled()
      assert.equal(held.length, 64)
      for (let answered = 0; answered < asked.length; ) {
        for (const answer of held.splice(0)) {
          answer()
          answered++
        }
        await settled()
      }
      assert.deepEqual([...new Set((await Promise.all(asked)).map(({ text }) => text))], ['ok'])
      assert.equal(site.connections, 64)
    } finally {
      await site.close()
    }
  })

  test('SECURITY: what a server sends on a free connection is not the answer to the next request', async () => {
    const answerOf = (text: string): string =>
      `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`
    const site = new Site(createTcpServer((socket) => socket.on('data', () => socket.write(answerOf('ok')))))
    await site.listen()
    try {
      assert.equal((await site.ask()).text, 'ok')
      await settled()
      for (const socket of site.sockets) socket.write(answerOf('forged'))
      await settled()
      const { text, isReused } = await site.ask()
      assert.equal(text, 'ok')
      assert.equal(isReused, false)
      assert.equal(site.connections, 2)
    } finally {
      await site.close()
    }
  })

  test('that a server closed while they were free are not used', async () => {
    const site = new Site(createServer((_, answer) => answer.end('ok')))
    await site.listen()
    try {
      await Promise.all([site.ask(), site.ask()])
      await settled()
      for (const socket of site.sockets) socket.destroy()
      await settled()
      assert.equal((await site.ask()).isReused, false)
      assert.equal(site.connections, 3)
    } finally {
      await site.close()
    }
  })
})
