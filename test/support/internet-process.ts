/**
 * The servers on the test internet: a name server, sites over HTTP and TLS, and listeners that no sandbox may
 * reach. Runs in its own network namespace, reads lines of JSON, reports everything that arrives as lines of
 * JSON, and ends with its input.
 */
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { createServer as createHttp, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { Duplex } from 'node:stream'
import { createSecureContext, type TLSSocket } from 'node:tls'

export interface InternetSetup {
  /** By host: the certificate and key that a site there shows. `*` is for everybody else. */
  readonly certificates: Readonly<Record<string, { readonly cert: string; readonly key: string }>>
  /** Ports that take connections, write them down and send a word. */
  readonly ports: readonly number[]
  /** UDP ports that write down what arrives and send it back. 53 is the name server's. */
  readonly udpPorts: readonly number[]
}

export type Arrival =
  | { readonly kind: 'started' }
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'question'
      readonly name: string
      readonly type: number
      readonly over: 'udp' | 'tcp'
      readonly to: string
    }
  | { readonly kind: 'datagram'; readonly to: string; readonly port: number; readonly text: string }
  | { readonly kind: 'connection'; readonly to: string; readonly port: number; readonly from: string }
  /** What came over a connection to one of the plain ports, when it ends. */
  | { readonly kind: 'bytes'; readonly to: string; readonly port: number; readonly text: string }
  | {
      readonly kind: 'request'
      readonly to: string
      readonly port: number
      readonly method: string
      readonly url: string
      readonly headers: readonly string[]
      readonly body: string
    }
  | { readonly kind: 'frame'; readonly to: string; readonly text: string }

export type Order =
  | ({ readonly op: 'begin' } & InternetSetup)
  | { readonly op: 'name'; readonly name: string; readonly answers: readonly (readonly string[])[] }

const TYPE_A = 1
const TYPE_AAAA = 28
const WORD = 'the evil host says hello\n'
const LONGEST_KEPT = 64 * 1024

/** Each question for a name takes the next list of addresses; the last one stays. */
const names = new Map<string, (readonly string[])[]>()

function tell(arrival: Arrival): void {
  process.stdout.write(`${JSON.stringify(arrival)}\n`)
}

const orders = createInterface({ input: process.stdin })
orders.on('line', (line) => {
  const order = JSON.parse(line) as Order
  if (order.op === 'name') names.set(order.name, [...order.answers])
  else void begin(order)
})
orders.on('close', () => process.exit(0))
tell({ kind: 'started' })

async function begin(setup: InternetSetup): Promise<void> {
  await Promise.all([
    ...['0.0.0.0', '::'].flatMap((host) => [
      listen(createServer(nameStream), 53, host),
      listen(createHttp(site), 80, host),
      listen(secureSite(setup), 443, host),
      listen(secureSite(setup), 8443, host),
      ...setup.ports.map((port) => listen(createServer(plain), port, host)),
    ]),
    ...(['udp4', 'udp6'] as const).flatMap((family) =>
      [53, ...setup.udpPorts].map((port) => listenUdp(family, port)),
    ),
  ])
  tell({ kind: 'ready' })
}

function listen(server: Server, port: number, host: string): Promise<void> {
  server.on('connection', (socket: Socket) => {
    const { localAddress: to = '', remoteAddress: from = '' } = socket
    tell({ kind: 'connection', to, port, from })
    socket.on('error', () => socket.destroy())
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, ipv6Only: host === '::' }, resolve)
  })
}

function plain(socket: Socket): void {
  const { localAddress: to = '', localPort: port = 0 } = socket
  let text = ''
  socket.on('data', (chunk) => {
    text = (text + chunk.toString('latin1')).slice(0, LONGEST_KEPT)
  })
  socket.on('close', () => tell({ kind: 'bytes', to, port, text }))
  socket.write(WORD)
}

// The name server.

async function listenUdp(family: 'udp4' | 'udp6', port: number): Promise<void> {
  const socket = createSocket({ type: family, ipv6Only: family === 'udp6' })
  const { address: to } = await new Promise<{ address: string }>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, () => resolve(socket.address()))
  })
  socket.on('message', (message, from) => {
    if (port === 53) {
      const answer = answerTo(message, 'udp', to)
      if (answer) socket.send(answer, from.port, from.address)
      return
    }
    tell({ kind: 'datagram', to, port, text: message.toString('latin1') })
    socket.send(message, from.port, from.address)
  })
}

function nameStream(socket: Socket): void {
  let held = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    held = Buffer.concat([held, chunk])
    while (held.length >= 2 && held.length >= 2 + held.readUInt16BE(0)) {
      const end = 2 + held.readUInt16BE(0)
      const answer = answerTo(held.subarray(2, end), 'tcp', socket.localAddress ?? '')
      held = held.subarray(end)
      if (!answer) continue
      const length = Buffer.alloc(2)
      length.writeUInt16BE(answer.length)
      socket.write(Buffer.concat([length, answer]))
    }
  })
}

function answerTo(message: Buffer, over: 'udp' | 'tcp', to: string): Buffer | undefined {
  if (message.length < 17) return undefined
  const labels: string[] = []
  let at = 12
  for (let length = message[at] ?? 0; length > 0 && length < 64; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = message.readUInt16BE(at + 1)
  const question = message.subarray(12, at + 5)
  const name = labels.join('.').toLowerCase()
  tell({ kind: 'question', name, type, over, to })
  const lists = names.get(name)
  // An address of the other family has its turn with its own question.
  const list = (type === TYPE_A && lists && lists.length > 1 ? lists.shift() : lists?.[0]) ?? []
  const addresses = list.filter((one) => one.includes(':') === (type === TYPE_AAAA))
  const records = type === TYPE_A || type === TYPE_AAAA ? addresses.map((one) => record(type, one)) : []
  const head = Buffer.from(message.subarray(0, 12))
  head.writeUInt16BE(lists ? 0x8580 : 0x8583, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(records.length, 6)
  head.writeUInt32BE(0, 8)
  return Buffer.concat([head, question, ...records])
}

/** Good for no time at all, so that everybody asks again who may. */
function record(type: number, address: string): Buffer {
  const bytes = type === TYPE_A ? Buffer.from(address.split('.').map(Number)) : v6(address)
  const head = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length])
  return Buffer.concat([head, bytes])
}

function v6(address: string): Buffer {
  const [before = '', after = ''] = address.split('::')
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))
  const [head, tail] = [groups(before), groups(after)]
  const all = [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail]
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 0xff]))
}

// The sites.

function secureSite({ certificates }: InternetSetup): Server {
  const contexts = new Map(
    Object.entries(certificates).map(([name, pair]) => [name, createSecureContext(pair)]),
  )
  const server = createHttps(
    {
      ...certificates['*'],
      SNICallback: (name, done) => done(null, contexts.get(name) ?? contexts.get('*')),
    },
    site,
  )
  server.on('upgrade', upgrade)
  return server
}

const site: RequestListener = (request, response) => {
  const { localAddress: to = '', localPort: port = 0 } = request.socket
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString('latin1').slice(0, LONGEST_KEPT)
    const { method = '', url = '/', rawHeaders: headers } = request
    tell({ kind: 'request', to, port, method, url, headers, body })
    answer(request, response, body)
  })
}

const pages: Readonly<Record<string, (o: Page) => void>> = {
  '/echo': ({ request, response, body }) => {
    const { method, url, rawHeaders } = request
    response.setHeader('x-echo', request.headers.authorization ?? request.headers['x-api-key'] ?? 'nothing')
    response.end(JSON.stringify({ method, url, rawHeaders, body }))
  },
  '/redirect': ({ response, query }) => {
    response.statusCode = 302
    response.setHeader('location', query.get('to') ?? '/')
    response.end()
  },
  /** As many bytes as are asked for, as fast as they are taken. */
  '/big': ({ response, query }) => {
    let left = Number(query.get('bytes'))
    response.setHeader('content-length', left)
    const chunk = Buffer.alloc(64 * 1024, 'x')
    const more = (): void => {
      while (left > 0) {
        const size = Math.min(left, chunk.length)
        left -= size
        if (!response.write(chunk.subarray(0, size))) return void response.once('drain', more)
      }
      response.end()
    }
    more()
  },
  /** A line now and then. */
  '/drip': ({ response, query }) => drip(response, query, (at) => `drop ${at}\n`),
  '/events': ({ request, response, query }) => {
    response.setHeader('content-type', 'text/event-stream')
    const said = request.headers.authorization ?? ''
    drip(response, query, (at) => `data: ${at} ${at % 2 === 0 ? said : ''}\n\n`)
  },
  /** What git asks for first, where a branch is named by what came in the header. */
  '/repository/info/refs': ({ request, response }) => {
    const said = (request.headers.authorization ?? 'none').replaceAll(/[^\w+/-]/g, '-')
    response.setHeader('content-type', 'text/plain')
    response.end(`${'1'.repeat(40)}\trefs/heads/${said}\n`)
  },
}

interface Page {
  readonly request: IncomingMessage
  readonly response: Parameters<RequestListener>[1]
  readonly query: URLSearchParams
  readonly body: string
}

function answer(request: IncomingMessage, response: Page['response'], body: string): void {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://site')
  const page = pages[pathname]
  if (page) page({ request, response, query, body })
  else response.end(`hello from ${request.headers.host} at ${request.socket.localAddress}\n`)
}

function drip(response: Page['response'], query: URLSearchParams, line: (at: number) => string): void {
  const [count, everyMs] = [Number(query.get('count') ?? 10), Number(query.get('every') ?? 100)]
  response.flushHeaders()
  let at = 0
  const timer = setInterval(() => {
    response.write(line(at++))
    if (at >= count) response.end()
    if (at >= count) clearInterval(timer)
  }, everyMs)
  response.on('close', () => clearInterval(timer))
}

// A websocket that sends back what it gets, and first of all what stood in the header.

function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { localAddress: to = '', localPort: port = 0 } = socket as TLSSocket
  const { method = '', url = '/', rawHeaders: headers } = request
  tell({ kind: 'request', to, port, method, url, headers, body: '' })
  socket.on('error', () => socket.destroy())
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
  const accept = createHash('sha1').update(key).digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  const send = (text: string): void => void socket.write(frame(text))
  send(`you said ${request.headers.authorization ?? 'nothing'}`)
  let held = head
  socket.on('data', (chunk: Buffer) => {
    held = Buffer.concat([held, chunk])
    for (let taken = takeFrame(held); taken; taken = takeFrame(held)) {
      held = taken.rest
      tell({ kind: 'frame', to, text: taken.text })
      send(taken.text)
    }
  })
}

function frame(text: string): Buffer {
  const body = Buffer.from(text)
  const head = body.length < 126 ? [0x81, body.length] : [0x81, 126, body.length >> 8, body.length & 0xff]
  return Buffer.concat([Buffer.from(head), body])
}

/** Of short ones from a client, which are masked. */
function takeFrame(held: Buffer): { text: string; rest: Buffer } | undefined {
  if (held.length < 6) return undefined
  const short = (held[1] ?? 0) & 0x7f
  const start = short === 126 ? 4 : 2
  if (held.length < start + 4) return undefined
  const length = short === 126 ? held.readUInt16BE(2) : short
  if (held.length < start + 4 + length) return undefined
  const mask = held.subarray(start, start + 4)
  const body = Buffer.from(held.subarray(start + 4, start + 4 + length))
  for (const [at, byte] of body.entries()) body[at] = byte ^ (mask[at % 4] ?? 0)
  return { text: body.toString('utf8'), rest: held.subarray(start + 4 + length) }
}
