/**
 * The proxy of a company network. It resolves names that this machine cannot, so it is asked by name and has
 * to check addresses itself. The policy for names still applies.
 */
import type { Socket } from 'node:net'
import { invalid } from '../../core/error.ts'
import { readPort } from '../../policy/port.ts'
import type { Clock } from '../../util/clock.ts'
import { type Destination, hostText } from '../destination.ts'
import { peekStream } from '../listen/peek-stream.ts'
import { failed } from '../refusal.ts'
import { dialSocket } from './dial.ts'

export interface UpstreamProxy {
  readonly host: string
  readonly port: number
}

const LONGEST_ANSWER = 16 * 1024
const WITHIN_MS = 20_000

/** Accepts only `http://host:port`. */
export function parseUpstreamProxy(url: string): UpstreamProxy {
  const match = /^http:\/\/(\[[0-9a-f:.]+\]|[a-z0-9.-]+):([0-9]+)\/?$/i.exec(url)
  const port = readPort(match?.[2] ?? '')
  if (!match?.[1] || port === undefined)
    throw invalid('proxy.malformed', 'the upstream proxy must be written http://host:port')
  return { host: match[1].replace(/^\[|\]$/g, ''), port }
}

/** A connection to the destination through the proxy, positioned after the proxy's response. */
export async function connectThrough(
  {
    proxy,
    destination,
    clock,
  }: { readonly proxy: UpstreamProxy; readonly destination: Destination; readonly clock: Clock },
  signal: AbortSignal,
): Promise<Socket> {
  const socket = await dialSocket(proxy, signal).catch(() => {
    throw failed('upstream.proxy', 'the upstream proxy cannot be reached', 'ask the user to check it')
  })
  const host = hostText(destination)
  const place = `${host.includes(':') ? `[${host}]` : host}:${destination.port}`
  socket.write(`CONNECT ${place} HTTP/1.1\r\nHost: ${place}\r\n\r\n`)
  const onAbort = (): void => void socket.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  const { value: end } = await peekStream(socket, {
    clock,
    limit: LONGEST_ANSWER,
    withinMs: WITHIN_MS,
    judge: (bytes) => {
      const at = bytes.indexOf('\r\n\r\n')
      return at < 0 ? undefined : at + 4
    },
  })
  signal.removeEventListener('abort', onAbort)
  const answer = end === undefined ? '' : String(socket.read(end) ?? '')
  if (/^HTTP\/1\.[01] 200[ \r]/.test(answer)) return socket
  socket.on('error', () => undefined)
  socket.destroy()
  const status = /^HTTP\/1\.[01] ([0-9]{3})/.exec(answer)?.[1]
  throw failed(
    'upstream.proxy',
    `the upstream proxy did not connect to ${host}${status ? ` (status ${status})` : ''}`,
    'ask the user whether it may be reached from their network',
  )
}
