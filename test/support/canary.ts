/**
 * Targets for an attacker: a token in a file, and listeners on the host. A sandbox that reaches one has
 * escaped.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A secret whose encoded forms differ from itself. */
export function newToken(): string {
  return `canary/+${randomBytes(16).toString('hex')}`
}

/** The token as it is, in base64 at each of the three offsets, in hex and URL-encoded. */
export function spellings(token: string): string[] {
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.from('x'.repeat(shift) + token).toString('base64')
    // The first and last group also hold bits of the neighbours.
    return text.slice(shift === 0 ? 0 : 4, -4)
  })
  return [token, ...base64, Buffer.from(token).toString('hex'), encodeURIComponent(token)]
}

export function findToken(text: string, token: string): string | undefined {
  return spellings(token).find((spelling) => text.includes(spelling))
}

export function assertNoToken(text: string, token: string, where: string): void {
  assert.equal(findToken(text, token), undefined, `the canary is in ${where}`)
}

export class Canary implements AsyncDisposable {
  readonly token = newToken()
  readonly directory: string
  readonly file: string
  readonly socket: string
  readonly abstract: string
  /** The listeners that were reached. */
  readonly hits: string[] = []
  #servers: Server[] = []
  #port = 0

  private constructor(directory: string) {
    this.directory = directory
    this.file = join(directory, 'secret')
    this.socket = join(directory, 'socket')
    this.abstract = `agentpod-canary-${randomBytes(8).toString('hex')}`
  }

  get port(): number {
    return this.#port
  }

  /** In a new directory, or below an existing one. */
  static async plant(parent: string = tmpdir()): Promise<Canary> {
    const canary = new Canary(mkdtempSync(join(parent, 'agentpod-canary-')))
    writeFileSync(canary.file, canary.token, { mode: 0o600 })
    await canary.#listen('unix', canary.socket)
    await canary.#listen('abstract', `\0${canary.abstract}`)
    const tcp = await canary.#listen('tcp', 0)
    canary.#port = (tcp.address() as { port: number }).port
    return canary
  }

  #listen(name: string, where: string | number): Promise<Server> {
    const server = createServer((socket) => {
      this.hits.push(name)
      socket.on('error', () => undefined)
      socket.end(this.token)
    })
    this.#servers.push(server)
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      if (typeof where === 'number') server.listen(where, '127.0.0.1', () => resolve(server))
      else server.listen(where, () => resolve(server))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) server.close()
    await rm(this.directory, { recursive: true, force: true })
  }
}
