/**
 * What was decided, on its way to the server: a first occurrence soon, repetitions as a count. However much a sandbox tries, the number of records is
 * bounded. SECURITY: LK-16. A record holds no header, body or query.
 */
import type { NetRecord } from '../core/network.ts'
import type { Clock } from '../util/clock.ts'

/** Everything but what is counted. */
export type Occurrence = Omit<NetRecord, 'sandboxId' | 'at' | 'until' | 'count' | 'bytesIn' | 'bytesOut'>

/** Where the bytes of a connection are added when they are known. */
export interface Entry {
  add(bytesIn: number, bytesOut: number): void
}

const FIRST_MS = 100
const REPEAT_MS = 5000
const MOST_KEYS = 256
const MOST_KEPT = 1000
const OTHER = '(other)'
const LONGEST_HOST = 253
const LONGEST_PATH = 256

interface Tally {
  readonly what: Occurrence
  at: number
  until: number
  count: number
  bytesIn: number
  bytesOut: number
}

type Deliver = (records: readonly NetRecord[]) => boolean

export class Records {
  readonly #sandbox: string
  readonly #clock: Clock
  /** Says whether somebody took them. */
  readonly #deliver: Deliver
  /** The keys of this window: what was delivered of them is zero again. */
  readonly #tallies = new Map<string, Tally>()
  #kept: NetRecord[] = []
  #cancelFirst: (() => void) | undefined
  #cancelRepeat: (() => void) | undefined

  constructor(o: { readonly sandbox: string; readonly clock: Clock; readonly deliver: Deliver }) {
    this.#sandbox = o.sandbox
    this.#clock = o.clock
    this.#deliver = o.deliver
  }

  note(occurrence: Occurrence): Entry {
    const what = bounded(occurrence)
    const key = keyOf(what)
    this.#tally(key, what).count++
    return {
      add: (bytesIn, bytesOut) => {
        if (bytesIn === 0 && bytesOut === 0) return
        const tally = this.#tally(key, what, false)
        tally.bytesIn += bytesIn
        tally.bytesOut += bytesOut
      },
    }
  }

  /** Delivers what there is, such as when a server connects or the link is closed. */
  flush(): void {
    const records = [...this.#kept, ...this.#take()]
    this.#kept = []
    if (records.length > 0 && !this.#deliver(records)) this.#keep(records)
  }

  close(): void {
    this.flush()
    this.#cancelFirst?.()
    this.#cancelRepeat?.()
  }

  #tally(key: string, what: Occurrence, isSoon = true): Tally {
    const now = this.#clock.now()
    let known = this.#tallies.get(key)
    if (!known) {
      const isFull = this.#tallies.size >= MOST_KEYS && what.host !== OTHER
      if (isFull) return this.#tally(...otherOf(what), isSoon)
      known = { what, at: now, until: now, count: 0, bytesIn: 0, bytesOut: 0 }
      this.#tallies.set(key, known)
      if (isSoon) this.#cancelFirst ??= this.#clock.after(FIRST_MS, () => this.#first())
    } else if (known.count === 0) known.at = now
    known.until = now
    this.#cancelRepeat ??= this.#clock.after(REPEAT_MS, () => this.#repeat())
    return known
  }

  #first(): void {
    this.#cancelFirst = undefined
    this.flush()
  }

  /** The end of a window: keys without news are forgotten, and their next occurrence is a first one. */
  #repeat(): void {
    this.#cancelRepeat = undefined
    this.flush()
    this.#tallies.clear()
  }

  #take(): NetRecord[] {
    const records: NetRecord[] = []
    for (const tally of this.#tallies.values()) {
      const { what, at, until, count, bytesIn, bytesOut } = tally
      if (count === 0 && bytesIn === 0 && bytesOut === 0) continue
      records.push({ sandboxId: this.#sandbox, at, until, count, bytesIn, bytesOut, ...what })
      tally.count = tally.bytesIn = tally.bytesOut = 0
    }
    return records
  }

  /** While no server is there, equal ones are one, and what is beyond the bound is `(other)`. */
  #keep(records: readonly NetRecord[]): void {
    const kept = new Map<string, NetRecord>()
    for (const record of records) {
      const [key, what] = kept.size < MOST_KEPT ? [keyOf(record), record] : otherOf(record)
      const before = kept.get(key)
      kept.set(key, before ? joined(before, record) : { ...record, ...what })
    }
    this.#kept = [...kept.values()]
  }
}

function joined(a: NetRecord, b: NetRecord): NetRecord {
  return {
    ...a,
    at: Math.min(a.at, b.at),
    until: Math.max(a.until, b.until),
    count: a.count + b.count,
    bytesIn: a.bytesIn + b.bytesIn,
    bytesOut: a.bytesOut + b.bytesOut,
  }
}

function keyOf({ verdict, reason, host, port, method, path, via }: Occurrence): string {
  return JSON.stringify([verdict, reason, host, port, method ?? '', path ?? '', via])
}

function otherOf({ verdict }: Occurrence): [string, Occurrence] {
  const message = 'more than is written down one by one'
  const what: Occurrence = { verdict, reason: 'other', host: OTHER, port: 0, via: 'direct', message }
  return [keyOf(what), what]
}

function bounded(what: Occurrence): Occurrence {
  return {
    ...what,
    host: printable(what.host, LONGEST_HOST),
    ...(what.path !== undefined && { path: printable(what.path.split('?', 1)[0] ?? '', LONGEST_PATH) }),
  }
}

function printable(text: string, longest: number): string {
  return text.slice(0, longest).replace(/[^!-~]/g, '?')
}
