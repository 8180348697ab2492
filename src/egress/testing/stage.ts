/**
 * An egress with a sandbox's side and an internet of its own. Decisions and address checks are the real ones; only the last step is not: an address of the documentation ranges leads
 * to a listener on loopback, which itself can never be dialled.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NetRecord } from '../../core/network.ts'
import { formatAddress } from '../../policy/address.ts'
import type { NetworkPolicy } from '../../policy/decide.ts'
import { parseDenial, parseRule } from '../../policy/rule.ts'
import type { LinkSpec } from '../control.ts'
import { Egress, type EgressOptions } from '../egress.ts'
import { FakePodd } from './fake-podd.ts'

export const SANDBOX = 'sb-test'

export interface StageOptions extends Partial<EgressOptions> {
  readonly policy?: NetworkPolicy
  readonly spec?: Partial<LinkSpec>
}

export function policyOf(
  rules: readonly unknown[],
  more: Partial<Omit<NetworkPolicy, 'denied'>> & { readonly denied?: readonly unknown[] } = {},
): NetworkPolicy {
  return {
    mode: more.mode ?? 'allowlist',
    rules: rules.map((rule) => parseRule(rule, 'user')),
    denied: (more.denied ?? []).map((rule) => parseDenial(rule, 'user')),
    ...(more.addresses && { addresses: more.addresses }),
  }
}

export class Stage {
  readonly podd: FakePodd
  readonly egress: Egress
  readonly records: NetRecord[] = []
  /** Every name that was asked for. SECURITY: NW-07. What is refused must not be here. */
  readonly asked: string[] = []
  /** Every address that was dialled, with its port. */
  readonly dialled: string[] = []
  readonly errors: unknown[] = []
  readonly #names = new Map<string, readonly string[] | (() => readonly string[])>()
  readonly #places = new Map<string, number>()
  readonly #closing: (() => Promise<void>)[] = []
  readonly #directory: string
  #spec: LinkSpec

  private constructor(options: StageOptions) {
    const { policy = policyOf([]), spec, ...rest } = options
    this.#directory = mkdtempSync(join(tmpdir(), 'egress-'))
    this.podd = new FakePodd(join(this.#directory, 'out'))
    this.egress = new Egress({
      log: { info() {}, warn() {}, error: (message, fields) => this.errors.push([message, fields]) },
      resolve: async (host) => {
        this.asked.push(host)
        const known = this.#names.get(host) ?? []
        return typeof known === 'function' ? known() : known
      },
      dial: ({ address, port }) => this.#dial(formatAddress(address), port),
      ownAddresses: () => [],
      deliver: (records) => {
        this.records.push(...records)
        return true
      },
      ...rest,
    })
    this.#spec = {
      sandbox: SANDBOX,
      socket: this.podd.path,
      policy,
      secrets: [],
      intercept: 'needed',
      ...spec,
    }
  }

  static async open(options: StageOptions = {}): Promise<Stage> {
    const stage = new Stage(options)
    await stage.podd.listen()
    stage.egress.open(stage.#spec)
    return stage
  }

  /** Says something else about the sandbox, as a server would. */
  change(spec: Partial<LinkSpec>): void {
    this.#spec = { ...this.#spec, ...spec }
    this.egress.open(this.#spec)
  }

  name(host: string, answers: readonly string[] | (() => readonly string[])): void {
    this.#names.set(host, answers)
  }

  /** Lets an address and port lead to a server that listens on loopback, and closes it with the stage. */
  async place(address: string, port: number, server: Server): Promise<void> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    this.#places.set(`${address} ${port}`, (server.address() as { port: number }).port)
    const sockets = new Set<Socket>()
    server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    this.#closing.push(() => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    })
  }

  async close(): Promise<void> {
    this.egress.closeAll()
    await this.podd.close()
    for (const close of this.#closing) await close()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #dial(address: string, port: number): Promise<Socket> {
    this.dialled.push(`${address} ${port}`)
    return new Promise((resolve, reject) => {
      const known = this.#places.get(`${address} ${port}`)
      if (known === undefined) return reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }))
      const socket = connect({ host: '127.0.0.1', port: known, allowHalfOpen: true, noDelay: true })
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(socket)
      })
    })
  }
}

/** Everything until the other side ends. */
export function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      text += chunk
    })
    socket.once('close', () => resolve(text))
    socket.once('end', () => {
      socket.end()
      resolve(text)
    })
    socket.resume()
  })
}

/** What arrives until it holds a text. */
export function readUntil(socket: Socket, wanted: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const onData = (chunk: Buffer): void => {
      text += chunk.toString('latin1')
      if (text.includes(wanted)) finish()
    }
    const finish = (): void => {
      socket.off('data', onData).off('close', onClose)
      socket.pause()
      resolve(text)
    }
    const onClose = (): void => reject(new Error(`it ended with ${JSON.stringify(text)}`))
    socket.on('data', onData).once('close', onClose)
    socket.resume()
  })
}
