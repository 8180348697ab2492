/**
 * An egress service with a fake podd and a fake internet. Decisions and address checks are real; only dialing
 * is replaced: an address of the documentation ranges leads to a listener on loopback, which itself is never
 * dialed.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NetRecord } from '../../core/network.ts'
import { formatAddress } from '../../policy/address.ts'
import type { NetworkPolicy } from '../../policy/decide.ts'
import { parseDenial, parseRule } from '../../policy/rule.ts'
import type { LinkSpec } from '../control/link-spec.ts'
import { EgressService, type EgressServiceOptions } from '../egress.ts'
import { dialSocket } from '../reach/dial.ts'
import { FakePodd } from './fake-podd.ts'

export const SANDBOX = 'sb-test'

export interface FixtureOptions extends Partial<EgressServiceOptions> {
  readonly policy?: NetworkPolicy
  readonly spec?: Partial<LinkSpec>
}

export function testPolicy(
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

export class EgressFixture {
  readonly podd: FakePodd
  readonly egress: EgressService
  readonly records: NetRecord[] = []
  /** Every name that was resolved. SECURITY: NW-07. A refused name must not be here. */
  readonly asked: string[] = []
  /** Every address that was dialed, with its port. */
  readonly dialled: string[] = []
  readonly errors: unknown[] = []
  readonly #names = new Map<string, readonly string[] | (() => readonly string[])>()
  readonly #places = new Map<string, number>()
  readonly #closing: (() => Promise<void>)[] = []
  readonly #directory: string
  #spec: LinkSpec

  private constructor(options: FixtureOptions) {
    const { policy = testPolicy([]), spec, ...rest } = options
    this.#directory = mkdtempSync(join(tmpdir(), 'egress-'))
    this.podd = new FakePodd(join(this.#directory, 'out'))
    this.egress = new EgressService({
      log: { info() {}, warn() {}, error: (message, fields) => this.errors.push([message, fields]) },
      resolve: async (host) => {
        this.asked.push(host)
        const known = this.#names.get(host) ?? []
        return typeof known === 'function' ? known() : known
      },
      dial: ({ address, port }, signal) => this.#dial(formatAddress(address), port, signal),
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

  static async open(options: FixtureOptions = {}): Promise<EgressFixture> {
    const fixture = new EgressFixture(options)
    await fixture.podd.listen()
    fixture.egress.open(fixture.#spec)
    return fixture
  }

  /** Updates the sandbox, as a server would. */
  change(spec: Partial<LinkSpec>): void {
    this.#spec = { ...this.#spec, ...spec }
    this.egress.open(this.#spec)
  }

  name(host: string, answers: readonly string[] | (() => readonly string[])): void {
    this.#names.set(host, answers)
  }

  /** Makes an address and port lead to a server on loopback, and closes it with the fixture. */
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

  #dial(address: string, port: number, signal: AbortSignal): Promise<Socket> {
    this.dialled.push(`${address} ${port}`)
    const known = this.#places.get(`${address} ${port}`)
    if (known === undefined)
      return Promise.reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }))
    return dialSocket({ host: '127.0.0.1', port: known }, signal)
  }
}

/** Reads until the other side ends. */
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

/** Reads until the text has arrived. */
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
    const onClose = (): void => reject(new Error(`the stream ended with ${JSON.stringify(text)}`))
    socket.on('data', onData).once('close', onClose)
    socket.resume()
  })
}
