import { connect } from 'node:net'
import { socketPath } from '../util/socket-path.ts'

/** Whether somebody takes connections on a unix socket. */
export function isListening(socket: string): Promise<boolean> {
  return new Promise((answer) => {
    let path: string
    try {
      path = socketPath(socket)
    } catch {
      return answer(false)
    }
    const peer = connect(path)
    peer.once('connect', () => {
      peer.destroy()
      answer(true)
    })
    peer.once('error', () => answer(false))
  })
}
