/** Who may call: keys are made, listed, revoked, and turned into a principal. */
import { createHash } from 'node:crypto'
import { AgentPodError, invalid } from '../core/error.ts'
import { DEFAULT_CAP, type Key, type Scope } from '../core/key.ts'
import type { NetworkCap } from '../core/network.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { AuditStore } from '../store/audit.ts'
import type { KeyStore, StoredKey } from '../store/keys.ts'
import type { Clock } from '../util/clock.ts'
import { type Random, randomWord } from '../util/random.ts'

export interface KeysParts {
  readonly store: KeyStore
  readonly clock: Clock
  readonly random: Random
  readonly audit?: AuditStore | undefined
}

export interface NewKey {
  readonly name: string
  readonly scope: Scope
  readonly network?: NetworkCap | undefined
  readonly ttlMs?: number | undefined
}

const LONGEST_TTL_MS = 10 * 365 * 24 * 3_600_000
/** Older E2B SDKs look at the form of a key: this prefix and forty hex digits. */
const PREFIX = 'e2b_'
const SECRET_BYTES = 20
/** Revoked ones are remembered, and all are held in memory. */
const MOST_KEYS = 100_000
/** No timer is longer, and no exchange lasts as long. */
const LONGEST_TIMER_MS = 24 * 24 * 3_600_000

export class Keys {
  readonly #parts: KeysParts
  /** By hash, so that finding one takes no longer for a near miss than for a far one. */
  readonly #byHash: Map<string, StoredKey>
  readonly #hashOfId: Map<string, string>
  /** What ends each exchange that is under way in a key's name. */
  readonly #exchanges = new Map<string, Set<() => void>>()

  constructor(parts: KeysParts) {
    this.#parts = parts
    const all = parts.store.all()
    this.#byHash = new Map(all.map((key) => [key.hash, key]))
    this.#hashOfId = new Map(all.map((key) => [key.id, key.hash]))
  }

  /** The key and its secret, which is not kept and never shown again. */
  create(wanted: NewKey, who: Principal = LOCAL): { key: Key; secret: string } {
    const { clock, random, store } = this.#parts
    if (wanted.ttlMs !== undefined && !(wanted.ttlMs >= 1000 && wanted.ttlMs <= LONGEST_TTL_MS)) {
      throw invalid('key.ttl', 'a key lives from a second to ten years')
    }
    const secret = PREFIX + Buffer.from(random.bytes(SECRET_BYTES)).toString('hex')
    const createdAt = clock.now()
    const stored: StoredKey = {
      id: randomWord(random, 12),
      name: wanted.name,
      scope: wanted.scope,
      network: wanted.network ?? DEFAULT_CAP,
      hash: hashOf(secret),
      createdAt,
      expiresAt: wanted.ttlMs === undefined ? undefined : createdAt + wanted.ttlMs,
      revokedAt: undefined,
    }
    if (this.#byHash.size >= MOST_KEYS) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'key.too_many',
        message: `this server has ${MOST_KEYS} keys, which is all it takes`,
      })
    }
    store.insert(stored)
    this.#byHash.set(stored.hash, stored)
    this.#hashOfId.set(stored.id, stored.hash)
    this.#parts.audit?.append({
      at: createdAt,
      actor: who.owner,
      action: 'key.create',
      subject: stored.id,
      data: { name: stored.name, scope: stored.scope, network: stored.network.mode },
    })
    return { key: withoutHash(stored), secret }
  }

  list(): Key[] {
    return [...this.#byHash.values()].map(withoutHash)
  }

  /** Ends a key, and what is under way in its name, at once. Its sandboxes live on and are the admin's to end. */
  revoke(id: string, who: Principal = LOCAL): Key {
    const known = this.#keyOf(id)
    if (!known)
      throw new AgentPodError({ code: 'not_found', reason: 'key.unknown', message: `there is no key ${id}` })
    const revoked = { ...known, revokedAt: known.revokedAt ?? this.#parts.clock.now() }
    this.#parts.store.revoke(id, revoked.revokedAt)
    this.#byHash.set(known.hash, revoked)
    if (known.revokedAt === undefined) {
      const at = revoked.revokedAt
      this.#parts.audit?.append({ at, actor: who.owner, action: 'key.revoke', subject: id, data: {} })
    }
    for (const cut of this.#exchanges.get(id) ?? []) cut()
    return withoutHash(revoked)
  }

  /** Whether an owner may still act: the local user, or a key that is neither revoked nor over. */
  mayAct(owner: string): boolean {
    return owner === LOCAL.owner || this.#isLiving(this.#keyOf(owner))
  }

  /**
   * Begins an exchange in an owner's name: `cut` is called when its key ends before the exchange does. The answer ends it. Refused like an
   * unknown key where the owner may not act.
   */
  begin(owner: string, cut: () => void): () => void {
    if (!this.mayAct(owner)) throw notValid('key.invalid', 'this key is not valid')
    if (owner === LOCAL.owner) return () => undefined
    const open = this.#exchanges.get(owner) ?? new Set()
    this.#exchanges.set(owner, open.add(cut))
    const left = (this.#keyOf(owner)?.expiresAt ?? Number.POSITIVE_INFINITY) - this.#parts.clock.now()
    const stopWaiting = left <= LONGEST_TIMER_MS ? this.#parts.clock.after(left, cut) : undefined
    return () => {
      stopWaiting?.()
      open.delete(cut)
      if (open.size === 0 && this.#exchanges.get(owner) === open) this.#exchanges.delete(owner)
    }
  }

  /** Whether it is, or was, the secret of a key. */
  isKnown(secret: string): boolean {
    return this.#byHash.has(hashOf(secret))
  }

  /** Who a secret belongs to; `unauthenticated` for anything but a living key, without saying which. */
  verify(secret: string | undefined): Principal {
    const key = secret === undefined ? undefined : this.#byHash.get(hashOf(secret))
    if (key && this.#isLiving(key))
      return { owner: key.id, isAdmin: key.scope === 'admin', network: key.network }
    throw secret === undefined
      ? notValid('key.missing', 'this call needs a key')
      : notValid('key.invalid', 'this key is not valid')
  }

  #keyOf(id: string): StoredKey | undefined {
    return this.#byHash.get(this.#hashOfId.get(id) ?? '')
  }

  #isLiving(key: StoredKey | undefined): boolean {
    if (!key || key.revokedAt !== undefined) return false
    return (key.expiresAt ?? Number.POSITIVE_INFINITY) > this.#parts.clock.now()
  }
}

function notValid(reason: string, message: string): AgentPodError {
  return new AgentPodError({
    code: 'unauthenticated',
    reason,
    message,
    hint: '`agentpod key create` on the server makes one; send it as X-API-Key or Authorization: Bearer',
  })
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

function withoutHash({ hash: _, ...key }: StoredKey): Key {
  return key
}
