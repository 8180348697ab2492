/**
 * HTTP over TCP as any client may write it: every header is sent as it is, and the answer has its own
 * headers.
 */
import { connect } from 'node:net'

export interface TcpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The whole answer as it came. */
  readonly raw: string
}

export interface TcpRequest {
  readonly port: number
  readonly method?: string
  readonly path: string
  /** In place of `localhost:<port>`; null sends none. */
  readonly host?: string | null
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  /** Stop reading once this is in the answer: for streams. */
  readonly until?: RegExp
  readonly timeoutMs?: number
}

const LONGEST_WAIT_MS = 20_000

export function tcpRequest(o: TcpRequest): Promise<TcpAnswer> {
  const host = o.host === undefined ? `localhost:${o.port}` : o.host
  const headers = { ...(host !== null && { host }), connection: 'close', ...o.headers }
  const body = o.body === undefined ? undefined : Buffer.from(o.body)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  if (body) lines.push(`content-length: ${body.length}\r\n`)
  const head = Buffer.from(`${o.method ?? 'GET'} ${o.path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'utf8')
  return new Promise((resolve, reject) => {
    const socket = connect(o.port, '127.0.0.1')
    const chunks: Buffer[] = []
    const timer = setTimeout(
      () => socket.destroy(new Error(`no end of ${o.path}`)),
      o.timeoutMs ?? LONGEST_WAIT_MS,
    )
    const settle = (): void => {
      clearTimeout(timer)
      resolve(parse(Buffer.concat(chunks).toString('utf8')))
      socket.destroy()
    }
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      if (o.until?.test(Buffer.concat(chunks).toString('utf8'))) settle()
    })
    // A server that refuses early may reset the connection while the body is still on its way.
    socket.on('error', (error) => (chunks.length > 0 ? settle() : reject(error)))
    socket.on('close', settle)
    socket.write(body ? Buffer.concat([head, body]) : head)
  })
}

function parse(raw: string): TcpAnswer {
  const cut = raw.indexOf('\r\n\r\n')
  const [first = '', ...lines] = (cut < 0 ? raw : raw.slice(0, cut)).split('\r\n')
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const rest = cut < 0 ? '' : raw.slice(cut + 4)
  const text = headers['transfer-encoding'] === 'chunked' ? unchunked(rest) : rest
  return { status: Number(first.split(' ')[1] ?? 0), headers, text, raw }
}

function unchunked(text: string): string {
  let rest = Buffer.from(text)
  let whole = ''
  for (;;) {
    const cut = rest.indexOf('\r\n')
    const size = Number.parseInt(rest.subarray(0, Math.max(0, cut)).toString('latin1'), 16)
    if (cut < 0 || !size) return whole
    whole += rest.subarray(cut + 2, cut + 2 + size).toString('utf8')
    rest = rest.subarray(cut + 2 + size + 2)
  }
}

export function errorOf(answer: TcpAnswer): { code?: unknown; reason?: string; message?: string } {
  try {
    const body = JSON.parse(answer.text) as { error?: object }
    return (body.error ?? body) as { code?: unknown; reason?: string; message?: string }
  } catch {
    return {}
  }
}
