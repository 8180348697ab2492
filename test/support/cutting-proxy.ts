/**
 * A proxy between a client and a daemon on Unix sockets. It closes a connection when the daemon has acted and
 * is about to answer.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'

export class CuttingProxy {
  readonly socket: string
  readonly #server: Server
  readonly #open = new Set<Socket>()
  #armed: { readonly request: RegExp; times: number } | undefined
  /** How many answers were lost so far. */
  cuts = 0

  private constructor(socket: string, target: string) {
    this.socket = socket
    this.#server = createServer((client) => this.#carry(client, connect(target)))
  }

  static async open(socket: string, target: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(socket, target)
    await new Promise<void>((resolve) => proxy.#server.listen(socket, resolve))
    return proxy
  }

  /** The next answers to requests whose first line matches are lost. */
  lose(request: RegExp, times = 1): void {
    this.#armed = { request, times }
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #carry(client: Socket, daemon: Socket): void {
    let line = ''
    for (const [one, other] of [
      [client, daemon],
      [daemon, client],
    ] as const) {
      this.#open.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        this.#open.delete(one)
        other.destroy()
      })
    }
    client.on('data', (chunk: Buffer) => {
      if (line === '') line = chunk.toString('latin1').split('\r\n')[0] ?? ''
      daemon.write(chunk)
    })
    client.on('end', () => daemon.end())
    daemon.on('end', () => client.end())
    daemon.on('data', (chunk: Buffer) => {
      const armed = this.#armed
      if (!armed?.request.test(line)) return void client.write(chunk)
      armed.times -= 1
      if (armed.times === 0) this.#armed = undefined
      this.cuts += 1
      client.destroy()
    })
  }
}
