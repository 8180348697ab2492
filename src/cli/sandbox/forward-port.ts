/** Ports of a sandbox on this machine: each connection to one becomes a connection to the port inside. */
import { createServer, type Server, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import type { Sandbox } from '../../client/sandbox.ts'
import { AgentPodError } from '../../core/error.ts'

/** If a port is taken, one of the next few is often free. */
const NEXT_PORTS = 20

export interface Forward extends Disposable {
  /** The port of 127.0.0.1. */
  readonly port: number
}

/** `local` 0 means any port. `failed_precondition` if the port is taken. */
export async function forwardPort(
  sandbox: Pick<Sandbox, 'dial'>,
  port: number,
  local: number,
): Promise<Forward> {
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (outside) => {
    open.add(outside)
    outside.on('close', () => open.delete(outside))
    outside.on('error', () => outside.destroy())
    sandbox.dial(port).then(
      (inside) => Promise.all([pipeline(outside, inside), pipeline(inside, outside)]).catch(() => undefined),
      () => outside.destroy(),
    )
  })
  await listen(server, local)
  return {
    port: (server.address() as { port: number }).port,
    [Symbol.dispose]() {
      server.close()
      for (const outside of open) outside.destroy()
    },
  }
}

/** The same port number, one of the next few, or any. */
export async function forwardNear(sandbox: Pick<Sandbox, 'dial'>, port: number): Promise<Forward> {
  for (let local = port; local <= Math.min(port + NEXT_PORTS, 65_535); local++) {
    try {
      return await forwardPort(sandbox, port, local)
    } catch (error) {
      if ((error as AgentPodError).reason !== 'port.taken') break
    }
  }
  return forwardPort(sandbox, port, 0)
}

function listen(server: Server, local: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(unusable(local, error)))
    server.listen(local, '127.0.0.1', resolve)
  })
}

function unusable(local: number, error: NodeJS.ErrnoException): AgentPodError {
  const isTaken = error.code === 'EADDRINUSE'
  return new AgentPodError({
    code: 'failed_precondition',
    reason: isTaken ? 'port.taken' : 'port.unusable',
    message: isTaken
      ? `port ${local} of this machine is taken`
      : `port ${local} of this machine cannot be used: ${error.code ?? error.message}`,
    hint: 'choose another one, or 0 for any',
    cause: error,
  })
}
