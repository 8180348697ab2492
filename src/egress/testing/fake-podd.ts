/** A listener that plays podd: idle connections wait here and are handed over with any header line. */
import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'

export class FakePodd {
  readonly path: string
  readonly #server: Server
  readonly #waiting: Socket[] = []
  readonly #wanted: ((socket: Socket) => void)[] = []
  readonly #all = new Set<Socket>()
  /** The total number of connections. */
  arrived = 0

  constructor(path: string) {
    this.path = path
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.arrived++
      this.#all.add(socket)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => {
        this.#all.delete(socket)
        const at = this.#waiting.indexOf(socket)
        if (at >= 0) this.#waiting.splice(at, 1)
      })
      const wanted = this.#wanted.shift()
      if (wanted) return wanted(socket)
      this.#waiting.push(socket)
      // The egress sends nothing on an idle connection, so `readable` means its end.
      socket.once('readable', this.#dropEnded)
    })
  }

  readonly #dropEnded = function (this: Socket): void {
    if (this.read() === null) this.destroy()
  }

  listen(): Promise<void> {
    rmSync(this.path, { force: true })
    return new Promise((resolve) => this.#server.listen(this.path, resolve))
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** A connection with the given header line, as a program inside gets it. */
  async handOver(line: string | Buffer): Promise<Socket> {
    const socket =
      this.#waiting.shift() ?? (await new Promise<Socket>((resolve) => this.#wanted.push(resolve)))
    socket.off('readable', this.#dropEnded)
    socket.write(line)
    return socket
  }

  proxy(): Promise<Socket> {
    return this.handOver('{"v":1,"kind":"proxy"}\n')
  }

  direct(to: { readonly name?: string; readonly address?: string; readonly port: number }): Promise<Socket> {
    return this.handOver(`${JSON.stringify({ v: 1, kind: 'direct', ...to })}\n`)
  }

  async close(): Promise<void> {
    for (const socket of this.#all) socket.destroy()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}
