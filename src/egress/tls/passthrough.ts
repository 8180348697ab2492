/** Passes the bytes of a connection through in both directions without reading them. */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Address } from '../../policy/address.ts'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Destination, Via } from '../destination.ts'
import { mayDial, type Route } from '../reach/route.ts'
import { splice } from '../reach/splice.ts'
import { Traffic } from '../record/traffic.ts'
import { denied } from '../refusal.ts'

export interface PassedConnection {
  readonly stream: Duplex
  readonly sandbox: SandboxEgress
  readonly destination: Destination
  readonly via: Via
  readonly judgement: Judgement
  readonly route?: Route | undefined
  /** Everything the client sent, if it has already ended its side. */
  readonly ended?: Buffer | undefined
}

/** Throws the error to report to the client before any byte is sent. */
export async function passThrough(passed: PassedConnection): Promise<void> {
  const { stream, sandbox, destination, judgement, route, ended } = passed
  // The policy may change while the first bytes are awaited and while the server is dialed.
  const mayContinue = (address?: Address): boolean => {
    const now = sandbox.judge(destination)
    if (!now.allowed || sandbox.needsInspection(destination, now)) return false
    return !address || mayDial(sandbox.routeParts, address, now.allowPrivate)
  }
  if (!mayContinue())
    throw denied('policy.changed', 'a change of the network rules closed this connection', 'connect again')
  sandbox.admit(judgement)
  const resolved = route ?? (await sandbox.findRoute(destination, judgement))
  const { socket, address } = await sandbox.dialRoute(resolved, destination)
  if (stream.destroyed || sandbox.signal.aborted || !mayContinue(address)) {
    socket.destroy()
    return void stream.destroy()
  }
  if (ended) socket.end(ended)
  join({ ...passed, socket, mayContinue: () => mayContinue(address) })
}

function join({
  stream,
  socket,
  sandbox,
  destination,
  via,
  judgement,
  mayContinue,
}: PassedConnection & { readonly socket: Socket; readonly mayContinue: () => boolean }): void {
  const { reason, message } = judgement
  const traffic = new Traffic(() => [socket.bytesRead, socket.bytesWritten])
  traffic.entry = sandbox.note({ outcome: 'allowed', destination, via, reason, message, judgement })
  const refuse = (why: string, text: string): void => {
    sandbox.note({ outcome: 'denied', destination, via, reason: why, message: text, judgement })
  }
  const spend = sandbox.budgets.spender(judgement.rule)
  const spendBoth = spend && ((bytesIn: number, bytesOut: number): boolean => spend(bytesIn + bytesOut))
  // Pools of connections to a database are idle for hours, and while the sandbox is paused. Both ends are on
  // this machine, so neither disappears without closing.
  const idleMs = judgement.isMember ? 0 : undefined
  const cut = splice({ inside: stream, outside: socket }, { spend: spendBoth, idleMs }, (isOverspent) => {
    release()
    if (isOverspent) refuse('budget.bytes', 'the byte budget of the rule is used up')
  })
  const release = sandbox.add({
    mayContinue: () => {
      const may = mayContinue()
      if (!may) refuse('policy.changed', 'a change of the network rules closed this connection')
      return may
    },
    cut,
    recordTraffic: () => traffic.record(),
  })
}
