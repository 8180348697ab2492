import { connect } from 'node:net'
import { socketPath } from '../../util/file/socket-path.ts'

/** Whether a server accepts connections on a unix socket. */
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
