/** Ports that programs in a sandbox listen on, read from its kernel's tables. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '../../client/sandbox.ts'

export interface Listening {
  readonly port: number
  /** Whether it listens on every address, and not on loopback alone. */
  readonly isOpen: boolean
}

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
const LONGEST_TABLE = 1024 * 1024
const EVERY_MS = 1000
/** How often ports are checked while one is expected. */
const OFTEN_MS = 250
/** Limits the forwarded ports of a program that opens many. */
const MOST_PORTS = 8
const FIRST_UNPRIVILEGED = 1024
/** The first port that the kernel assigns automatically. */
const FIRST_EPHEMERAL = 32_768

const LINE = /^\s{0,10}\d{1,10}: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /
const LOOPBACK = /^(?:[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F)$/
const EVERYWHERE = /^0+$/

/** SECURITY: a program inside may forge this table: malformed lines are ignored. */
export function listeningIn(table: string): readonly Listening[] {
  return table.split('\n').flatMap((line) => {
    const [, address = '', port = ''] = LINE.exec(line) ?? []
    const isOpen = EVERYWHERE.test(address)
    return isOpen || LOOPBACK.test(address) ? [{ port: Number.parseInt(port, 16), isOpen }] : []
  })
}

async function listening(sandbox: Pick<Sandbox, 'readFile'>): Promise<readonly Listening[]> {
  const tables = await Promise.all(TABLES.map((path) => readTable(sandbox, path)))
  return tables.flatMap(listeningIn)
}

/** A missing table (no IPv6) is empty. */
async function readTable(sandbox: Pick<Sandbox, 'readFile'>, path: string): Promise<string> {
  const parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of await sandbox.readFile(path)) {
      parts.push(part as Buffer)
      length += (part as Buffer).length
      if (length > LONGEST_TABLE) break
    }
  } catch {
    return ''
  }
  return Buffer.concat(parts).toString('latin1')
}

/**
 * Reports each port on which a program starts to listen, until the signal: the expected ones and others,
 * except those that `isKnown` matches and ports on loopback that the kernel assigned.
 */
export async function watchPorts(
  sandbox: Pick<Sandbox, 'readFile'>,
  o: {
    readonly signal: AbortSignal
    /** Including ports that are open already. */
    readonly awaited: readonly number[]
    isKnown(port: number): boolean
    listens(port: number): void
    found(port: number): Promise<void>
  },
): Promise<void> {
  const awaited = new Set(o.awaited)
  const look = async (): Promise<readonly Listening[]> => {
    const all = await listening(sandbox)
    if (!o.signal.aborted) for (const { port } of all) if (awaited.delete(port)) o.listens(port)
    return all
  }
  const told = new Set((await look()).map(({ port }) => port))
  let count = 0
  while (!o.signal.aborted && (count < MOST_PORTS || awaited.size > 0)) {
    await sleep(awaited.size > 0 ? OFTEN_MS : EVERY_MS, undefined, { signal: o.signal }).catch(
      () => undefined,
    )
    if (o.signal.aborted) return
    for (const { port, isOpen } of await look()) {
      if (told.has(port) || o.isKnown(port) || port < FIRST_UNPRIVILEGED) continue
      if (port >= FIRST_EPHEMERAL && !isOpen) continue
      told.add(port)
      if (o.signal.aborted) return
      if (++count > MOST_PORTS) continue
      await o.found(port)
    }
  }
}
