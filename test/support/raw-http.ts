/** HTTP as an attacker writes it: the path and the headers go out byte for byte, unchecked. */
import { connect } from 'node:net'

export interface RawAnswer {
  readonly status: number
  readonly body: Buffer
}

export interface RawRequest {
  readonly socket: string
  readonly method: string
  /** Bytes, so that overlong UTF-8 and worse can be sent. */
  readonly path: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer
}

export function rawRequest(o: RawRequest): Promise<RawAnswer> {
  const headers = { host: 'agentpod', connection: 'close', ...o.headers }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  if (o.body) lines.push(`content-length: ${o.body.length}\r\n`)
  const head = Buffer.concat([
    Buffer.from(`${o.method} `),
    Buffer.from(o.path),
    Buffer.from(` HTTP/1.1\r\n${lines.join('')}\r\n`),
  ])
  return new Promise((resolve, reject) => {
    const socket = connect(o.socket)
    const chunks: Buffer[] = []
    let isSettled = false
    const settle = (): void => {
      if (isSettled) return
      isSettled = true
      const all = Buffer.concat(chunks)
      const cut = all.indexOf('\r\n\r\n')
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(all.toString('latin1'))?.[1] ?? 0)
      resolve({ status, body: cut < 0 ? Buffer.alloc(0) : all.subarray(cut + 4) })
      socket.destroy()
    }
    socket.on('data', (chunk) => chunks.push(chunk))
    // A server that refuses early may reset the connection while the body is still on its way.
    socket.on('error', (error) => (chunks.length > 0 ? settle() : reject(error)))
    socket.on('close', settle)
    // One write: a second one, after an early refusal, would fail and take the answer with it.
    socket.write(o.body ? Buffer.concat([head, o.body]) : head)
  })
}
