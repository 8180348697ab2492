/** Bytes both ways, unread. */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Address } from '../policy/address.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import { mayDial, type Route } from './reach.ts'
import { denied } from './refusal.ts'
import { splice } from './splice.ts'
import type { Target, Via } from './target.ts'
import { Traffic } from './traffic.ts'

export interface Passed {
  readonly stream: Duplex
  readonly link: Link
  readonly target: Target
  readonly via: Via
  readonly judgement: Judgement
  readonly route?: Route | undefined
  /** All that the client said, where it has said its last already. */
  readonly ended?: Buffer | undefined
}

/** Throws what there is to say to the client, before a byte of it has gone anywhere. */
export async function passThrough(passed: Passed): Promise<void> {
  const { stream, link, target, judgement, route, ended } = passed
  // The policy may change while the client is listened to, and while its server is dialled.
  const mayGoOn = (address?: Address): boolean => {
    const now = link.judge(target)
    if (!now.allowed || link.needsLook(target, now)) return false
    return !address || mayDial(link.reachParts, address, now.allowPrivate)
  }
  if (!mayGoOn())
    throw denied('policy.changed', 'a change of the rules ended this connection', 'connect again')
  link.admit(judgement)
  const way = route ?? (await link.findRoute(target, judgement))
  const { socket, address } = await link.follow(way, target)
  if (stream.destroyed || link.signal.aborted || !mayGoOn(address)) {
    socket.destroy()
    return void stream.destroy()
  }
  if (ended) socket.end(ended)
  join({ ...passed, socket, mayGoOn: () => mayGoOn(address) })
}

function join({
  stream,
  socket,
  link,
  target,
  via,
  judgement,
  mayGoOn,
}: Passed & { readonly socket: Socket; readonly mayGoOn: () => boolean }): void {
  const { reason, message } = judgement
  const traffic = new Traffic(() => [socket.bytesRead, socket.bytesWritten])
  traffic.entry = link.note({ outcome: 'allowed', target, via, reason, message, judgement })
  const refuse = (why: string, text: string): void => {
    link.note({ outcome: 'denied', target, via, reason: why, message: text, judgement })
  }
  const spend = link.budgets.spender(judgement.rule)
  const cut = splice({ inside: stream, outside: socket }, { spend }, (isOverspent) => {
    release()
    if (isOverspent) refuse('budget.bytes', 'the bytes that a rule grants are used up')
  })
  const release = link.add({
    mayGoOn: () => {
      const may = mayGoOn()
      if (!may) refuse('policy.changed', 'a change of the rules ended this connection')
      return may
    },
    cut,
    settle: () => traffic.settle(),
  })
}
