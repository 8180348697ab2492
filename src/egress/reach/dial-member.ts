/**
 * Connects to a port of another member of a sandbox's group, through the server: only the server reaches the
 * inside of sandboxes, and it decides from its own records. See spec/egress-protocol.md.
 */
import type { Socket } from 'node:net'
import { readOneLine } from '../../util/stream/read-one-line.ts'
import { type Destination, hostText } from '../destination.ts'
import { failed } from '../refusal.ts'
import { dialSocket } from './dial.ts'

const LONGEST_ANSWER = 4096

export interface MemberPlace {
  readonly socket: string
  /** The id of the sandbox that connects. */
  readonly from: string
  readonly destination: Destination
}

export async function dialMember(place: MemberPlace, signal: AbortSignal): Promise<Socket> {
  const { from, destination } = place
  const member = hostText(destination)
  let socket: Socket
  try {
    socket = await dialSocket({ path: place.socket }, signal)
  } catch {
    throw failed(
      'upstream.group',
      `${member} is not reachable: the AgentPod server does not run`,
      'try again',
    )
  }
  socket.write(`${JSON.stringify({ v: 1, from, member, port: destination.port })}\n`)
  const answer = await readOneLine(socket, { limit: LONGEST_ANSWER, signal })
  if (answer === 'ok') return socket
  socket.destroy()
  throw failed(
    'upstream.group',
    answer ?? `the connection to ${member} was closed`,
    'check that the program in that member is running',
  )
}
