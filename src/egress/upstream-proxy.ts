/**
 * The proxy of a company's network, where there is one: it resolves names and reaches addresses that this machine cannot, so it is asked by name and
 * the check of addresses is its own. The policy on names holds as ever.
 */
import type { Socket } from 'node:net'
import { invalid } from '../core/error.ts'
import { readPort } from '../policy/port.ts'
import type { Clock } from '../util/clock.ts'
import { dialSocket } from './dial.ts'
import { peek } from './intake.ts'
import { failed } from './refusal.ts'
import { hostText, type Target } from './target.ts'

export interface UpstreamProxy {
  readonly host: string
  readonly port: number
}

const LONGEST_ANSWER = 16 * 1024
const WITHIN_MS = 20_000

/** `http://host:port` and nothing more. */
export function parseUpstreamProxy(url: string): UpstreamProxy {
  const match = /^http:\/\/(\[[0-9a-f:.]+\]|[a-z0-9.-]+):([0-9]+)\/?$/i.exec(url)
  const port = readPort(match?.[2] ?? '')
  if (!match?.[1] || port === undefined)
    throw invalid('proxy.malformed', 'the proxy of the network is written http://host:port')
  return { host: match[1].replace(/^\[|\]$/g, ''), port }
}

/** A connection to the target through the proxy, right behind its answer. */
export async function connectThrough(
  { proxy, target, clock }: { readonly proxy: UpstreamProxy; readonly target: Target; readonly clock: Clock },
  signal: AbortSignal,
): Promise<Socket> {
  const socket = await dialSocket(proxy, signal).catch(() => {
    throw failed('upstream.proxy', 'the proxy of the network cannot be reached', 'ask the user to look at it')
  })
  const host = hostText(target)
  const place = `${host.includes(':') ? `[${host}]` : host}:${target.port}`
  socket.write(`CONNECT ${place} HTTP/1.1\r\nHost: ${place}\r\n\r\n`)
  const onAbort = (): void => void socket.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  const { value: end } = await peek(socket, {
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
    `the proxy of the network did not connect to ${host}${status ? ` and said ${status}` : ''}`,
    'ask the user whether it may be reached from their network',
  )
}
