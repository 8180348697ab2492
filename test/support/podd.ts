/**
 * The real podd without guards, reached over one byte stream: its stdin and stdout, or its abstract socket.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { Duplex, type Readable, type Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Guest } from '../../src/core/guest.ts'
import { poddGuest } from '../../src/guest/podd/client.ts'
import { multiplexedStreams, type PoddStreams } from '../../src/guest/podd/streams.ts'

export const PODD = join(import.meta.dirname, '..', '..', 'dist', 'bin', 'podd')
export const USER = userInfo().username

/** `podd connect`, or podd itself with --stdio. */
type Piped = ChildProcessByStdio<Writable, Readable, null>

export interface StreamedPodd {
  readonly directory: string
  readonly streams: PoddStreams
  readonly guest: Guest
  /** The programs that carried the streams so far, oldest first. */
  readonly carriers: readonly Piped[]
  [Symbol.asyncDispose](): Promise<void>
}

export async function poddOnStdio(): Promise<StreamedPodd> {
  return await streamed([], () => spawnPiped(['--stdio', '--unguarded']))
}

export interface PoddBehindSocket extends StreamedPodd {
  readonly name: string
  readonly token: string
  readonly tokenFile: string
  readonly door: number
  /** Another connection, as from another server, with a token of its choice. */
  another(token?: string): PoddStreams
}

export async function poddBehindSocket(door = 0): Promise<PoddBehindSocket> {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-token-'))
  const tokenFile = join(directory, 'token')
  const token = randomBytes(32).toString('base64url')
  const name = `@agentpod-test-${randomBytes(8).toString('hex')}`
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 })
  const flags = ['--streams', name, '--token-file', tokenFile, '--unguarded']
  const podd = spawn(PODD, door === 0 ? flags : [...flags, '--door', String(door)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await listens(name)
  const dial = (said: string) => () => {
    const carrier = spawnPiped(['connect', name])
    carrier.stdin.write(`agentpod ${said}\n`)
    return carrier
  }
  const base = await streamed([directory], dial(token))
  return {
    ...base,
    name,
    token,
    tokenFile,
    door,
    another: (said = token) => multiplexedStreams(async () => duplexOf(dial(said)())),
    async [Symbol.asyncDispose]() {
      podd.kill('SIGKILL')
      await base[Symbol.asyncDispose]()
    },
  }
}

async function streamed(directories: readonly string[], start: () => Piped): Promise<StreamedPodd> {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-streams-'))
  const carriers: Piped[] = []
  const streams = multiplexedStreams(async () => {
    const carrier = start()
    carriers.push(carrier)
    return duplexOf(carrier)
  })
  const guest = poddGuest(streams)
  // A podd that a killed test leaves behind ends on its own.
  const lease = { remainingMs: 600_000, idleMs: 0 }
  const init = { env: {}, defaultUser: USER, defaultWorkdir: '', sudo: false, lease }
  await guest.configure(init, { timeoutMs: 10_000 })
  return {
    directory,
    streams,
    guest,
    carriers,
    async [Symbol.asyncDispose]() {
      guest.close()
      streams.close()
      for (const carrier of carriers)
        if (carrier.exitCode === null && carrier.signalCode === null) await once(carrier, 'exit')
      for (const one of [directory, ...directories]) rmSync(one, { recursive: true, force: true })
    },
  }
}

function spawnPiped(args: readonly string[]): Piped {
  return spawn(PODD, args, { stdio: ['pipe', 'pipe', 'inherit'] })
}

export function duplexOf(child: Piped): Duplex {
  return Duplex.from({ readable: child.stdout, writable: child.stdin })
}

async function listens(name: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (readFileSync('/proc/net/unix', 'utf8').includes(`${name}\n`)) return
    await pause(20)
  }
  throw new Error(`nothing listens at ${name}`)
}
