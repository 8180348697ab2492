/** A websocket: asked for as a request, then bytes both ways. Other protocols to change to are not passed on, and the request is an ordinary one. */
import { type IncomingMessage, request, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { endWithRefusal } from './http-answer.ts'
import { addressOf, connectSite } from './http-connect.ts'
import { LARGEST_HEAD } from './http-forward.ts'
import { endToEnd, flat, type Header, pairs, type ResponseHead, without } from './http-head.ts'
import type { Handling } from './http-hooks.ts'
import { hostHeader, type Site } from './http-target.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import { mayDial } from './reach.ts'
import { outcomeOf, refusalOfError } from './refusal.ts'
import { splice } from './splice.ts'
import { hostText, type Via } from './target.ts'
import { Traffic } from './traffic.ts'

export interface Upgrade {
  readonly req: IncomingMessage
  /** The client's connection, what came behind the head put back. */
  readonly stream: Duplex
  readonly link: Link
  readonly site: Site
  readonly via: Via
  readonly judgement: Judgement
  readonly handling: Handling
}

const ANSWER_MS = 30_000

export async function forwardUpgrade(upgrade: Upgrade): Promise<void> {
  const { stream, link, site, via, judgement, handling } = upgrade
  const fail = (error: unknown): void => {
    const why = refusalOfError(error)
    const { reason, message } = why
    link.note({
      outcome: outcomeOf(why),
      target: site.target,
      via,
      reason,
      message,
      judgement,
      request: handling.head,
    })
    endWithRefusal(stream, why, link.parts.clock)
  }
  let outside: Duplex
  try {
    outside = await connectSite(link, site, judgement)
  } catch (error) {
    return fail(error)
  }
  if (stream.destroyed) return void outside.destroy()
  const headers: Header[] = [
    ['Host', hostHeader(site)],
    ...without(endToEnd(handling.head.headers), 'host'),
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
  ]
  const upstream = request({
    createConnection: () => outside,
    host: hostText(site.target),
    method: handling.head.method,
    path: handling.head.path,
    headers: flat(headers),
    setHost: false,
    timeout: ANSWER_MS,
    maxHeaderSize: LARGEST_HEAD,
  })
  const onGone = (): void => void upstream.destroy()
  stream.once('close', onGone)
  upstream.on('timeout', () => upstream.destroy(new Error('there was no answer in time')))
  upstream.on('error', fail)
  upstream.on('response', (answer) => {
    stream.off('close', onGone)
    relay(upgrade, answer)
  })
  upstream.on('upgrade', (answer: IncomingMessage, socket: Duplex, first: Buffer) => {
    stream.off('close', onGone)
    upstream.off('error', fail)
    if (first.length > 0) socket.unshift(first)
    open(upgrade, answer, socket)
  })
  upstream.end()
}

/** The server's own no, which is an ordinary answer; the connection ends with it. */
function relay(
  { req, stream, link, site, via, judgement, handling }: Upgrade,
  answer: IncomingMessage,
): void {
  const { reason, message } = judgement
  link.note({
    outcome: 'allowed',
    target: site.target,
    via,
    reason,
    message,
    judgement,
    request: handling.head,
  })
  const res = new ServerResponse(req)
  res.shouldKeepAlive = false
  res.sendDate = false
  res.assignSocket(stream as never)
  res.on('finish', () => stream.end())
  answer.on('error', () => stream.destroy())
  const [status, headers] = [answer.statusCode ?? 502, endToEnd(pairs(answer.rawHeaders))]
  const written: ResponseHead = { status, message: answer.statusMessage ?? '', headers }
  const head = handling.response?.(written) ?? written
  const through = handling.bodyIn?.(head)
  res.writeHead(
    head.status,
    head.message,
    flat(through && !handling.isSameLength ? without(head.headers, 'content-length') : head.headers),
  )
  if (through) answer.pipe(through).pipe(res)
  else answer.pipe(res)
}

function open(upgrade: Upgrade, answer: IncomingMessage, outside: Duplex): void {
  const { stream, link, site, via, judgement, handling } = upgrade
  const { reason, message } = judgement
  const bytes = { in: 0, out: 0 }
  stream.on('data', (chunk: Buffer) => (bytes.out += chunk.length))
  outside.on('data', (chunk: Buffer) => (bytes.in += chunk.length))
  const traffic = new Traffic(() => [bytes.in, bytes.out])
  const request = handling.head
  traffic.entry = link.note({
    outcome: 'allowed',
    target: site.target,
    via,
    reason,
    message,
    judgement,
    request,
  })
  const head = { status: 101, message: 'Switching Protocols', headers: endToEnd(pairs(answer.rawHeaders)) }
  const { headers } = handling.response?.(head) ?? head
  const lines = [...headers, ['Connection', 'Upgrade'], ['Upgrade', 'websocket']].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  stream.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`, 'latin1')
  const spend = link.budgets.spender(judgement.rule)
  const [framesOut, framesIn] = [handling.framesOut?.(), handling.framesIn?.()]
  const cut = splice({ inside: stream, outside }, { spend, framesOut, framesIn }, () => release())
  const address = addressOf(outside)
  const release = link.add({
    mayGoOn: () =>
      link.judge(site.target, request).allowed &&
      (!address || mayDial(link.reachParts, address, judgement.allowPrivate)),
    cut,
    settle: () => traffic.settle(),
  })
}
