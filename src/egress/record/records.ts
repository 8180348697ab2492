/**
 * Decisions on their way to the server: the first occurrence soon, repetitions as a count. The number of
 * records is bounded, however many connections a sandbox attempts. SECURITY: LK-16. A record has no header,
 * body or query.
 */
import type { NetRecord } from '../../core/network.ts'
import type { Clock } from '../../util/clock.ts'
import { toVisibleAscii } from '../../util/hidden-characters.ts'

/** A decision without its counts. */
export type Occurrence = Omit<NetRecord, 'sandboxId' | 'at' | 'until' | 'count' | 'bytesIn' | 'bytesOut'>

/** Adds the bytes of a connection to its record. */
export interface RecordEntry {
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
  /** Returns whether a server received the records. */
  readonly #deliver: Deliver
  /** The tallies of the current window. Delivery resets their counts. */
  readonly #tallies = new Map<string, Tally>()
  /** Callers repeat occurrences that they keep. */
  readonly #keys = new WeakMap<Occurrence, { readonly what: Occurrence; readonly key: string }>()
  #kept: NetRecord[] = []
  #cancelFirst: (() => void) | undefined
  #cancelRepeat: (() => void) | undefined

  constructor(o: { readonly sandbox: string; readonly clock: Clock; readonly deliver: Deliver }) {
    this.#sandbox = o.sandbox
    this.#clock = o.clock
    this.#deliver = o.deliver
  }

  note(occurrence: Occurrence): RecordEntry {
    const { what, key } = this.#keyed(occurrence)
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

  #keyed(occurrence: Occurrence): { readonly what: Occurrence; readonly key: string } {
    const known = this.#keys.get(occurrence)
    if (known) return known
    const what = bounded(occurrence)
    const made = { what, key: keyOf(what) }
    this.#keys.set(occurrence, made)
    return made
  }

  /** Delivers all records, for example when a server connects or the sandbox is closed. */
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

  /** The end of a window: all keys are dropped, and their next occurrence counts as the first. */
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

  /** While no server is connected, equal records are merged, and those beyond the limit become `(other)`. */
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
  const message = 'more decisions than are recorded individually'
  const what: Occurrence = { verdict, reason: 'other', host: OTHER, port: 0, via: 'direct', message }
  return [keyOf(what), what]
}

function bounded(what: Occurrence): Occurrence {
  return {
    ...what,
    host: toVisibleAscii(what.host.slice(0, LONGEST_HOST)),
    ...(what.path !== undefined && {
      path: toVisibleAscii((what.path.split('?', 1)[0] ?? '').slice(0, LONGEST_PATH)),
    }),
  }
}
