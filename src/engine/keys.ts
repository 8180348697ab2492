/** API keys: created, listed, revoked, and turned into a principal. */

import type { Isolation } from '../core/capability.ts'
import { AgentPodError, invalid } from '../core/error.ts'
import { DEFAULT_CAP, type Key, type Scope } from '../core/key.ts'
import type { NetworkCap } from '../core/network.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { AuditStore } from '../store/audit.ts'
import type { KeyStore, StoredKey } from '../store/keys.ts'
import type { Clock } from '../util/clock.ts'
import { type Random, randomWord } from '../util/random.ts'
import { sha256Hex } from '../util/sha256.ts'

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
  readonly isolation?: Isolation | undefined
  readonly ttlMs?: number | undefined
}

const LONGEST_TTL_MS = 10 * 365 * 24 * 3_600_000
/** Older E2B SDKs check the form of a key: this prefix and forty hex digits. */
const PREFIX = 'e2b_'
const SECRET_BYTES = 20
/** Revoked keys are remembered, and all keys are held in memory. */
const MOST_KEYS = 100_000
/** Longer timers do not exist in Node, and no exchange lasts that long. */
const LONGEST_TIMER_MS = 24 * 24 * 3_600_000

export class Keys {
  readonly #parts: KeysParts
  /** By hash, so that a lookup takes equally long for a near miss and a far one. */
  readonly #byHash: Map<string, StoredKey>
  readonly #hashOfId: Map<string, string>
  /** For each key, the functions that cut its exchanges under way. */
  readonly #exchanges = new Map<string, Set<() => void>>()

  constructor(parts: KeysParts) {
    this.#parts = parts
    const all = parts.store.all()
    this.#byHash = new Map(all.map((key) => [key.hash, key]))
    this.#hashOfId = new Map(all.map((key) => [key.id, key.hash]))
  }

  /** Returns the key and its secret. The secret is not stored and never shown again. */
  create(wanted: NewKey, who: Principal): { key: Key; secret: string } {
    const { clock, random, store } = this.#parts
    if (wanted.ttlMs !== undefined && !(wanted.ttlMs >= 1000 && wanted.ttlMs <= LONGEST_TTL_MS)) {
      throw invalid('key.ttl', 'the time to live of a key must be from 1 second to 10 years')
    }
    const secret = PREFIX + Buffer.from(random.bytes(SECRET_BYTES)).toString('hex')
    const createdAt = clock.now()
    const stored: StoredKey = {
      id: randomWord(random, 12),
      name: wanted.name,
      scope: wanted.scope,
      network: wanted.network ?? DEFAULT_CAP,
      isolation: wanted.isolation,
      hash: hashOf(secret),
      createdAt,
      expiresAt: wanted.ttlMs === undefined ? undefined : createdAt + wanted.ttlMs,
      revokedAt: undefined,
    }
    if (this.#byHash.size >= MOST_KEYS) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'key.too_many',
        message: `this server has ${MOST_KEYS} keys, which is its limit`,
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
      data: {
        name: stored.name,
        scope: stored.scope,
        network: stored.network.mode,
        ...(stored.isolation && { isolation: stored.isolation }),
      },
    })
    return { key: withoutHash(stored), secret }
  }

  list(): Key[] {
    return [...this.#byHash.values()].map(withoutHash)
  }

  /** Ends a key and cuts its exchanges at once. Its sandboxes continue; an admin can end them. */
  revoke(id: string, who: Principal): Key {
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

  /** Whether an owner may still act: the local user, or a key that is neither revoked nor expired. */
  mayAct(owner: string): boolean {
    return owner === LOCAL.owner || this.#isValid(this.#keyOf(owner))
  }

  /**
   * Registers an exchange of an owner. `cut` is called if the key ends before the exchange does. Returns the
   * function that ends the exchange. An owner who may not act is refused like an unknown key.
   */
  trackExchange(owner: string, cut: () => void): () => void {
    if (!this.mayAct(owner)) throw unauthenticated('key.invalid', 'this key is not valid')
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

  /** Whether this is, or was, the secret of a key. */
  isKnown(secret: string): boolean {
    return this.#byHash.has(hashOf(secret))
  }

  /** The principal of a secret. `unauthenticated` for anything but a valid key, without saying which. */
  verify(secret: string | undefined): Principal {
    const key = secret === undefined ? undefined : this.#byHash.get(hashOf(secret))
    if (key && this.#isValid(key))
      return { owner: key.id, isAdmin: key.scope === 'admin', network: key.network }
    throw secret === undefined
      ? unauthenticated('key.missing', 'this call needs a key')
      : unauthenticated('key.invalid', 'this key is not valid')
  }

  #keyOf(id: string): StoredKey | undefined {
    return this.#byHash.get(this.#hashOfId.get(id) ?? '')
  }

  #isValid(key: StoredKey | undefined): boolean {
    if (!key || key.revokedAt !== undefined) return false
    return (key.expiresAt ?? Number.POSITIVE_INFINITY) > this.#parts.clock.now()
  }
}

function unauthenticated(reason: string, message: string): AgentPodError {
  return new AgentPodError({
    code: 'unauthenticated',
    reason,
    message,
    hint: '`agentpod key create` on the server makes one; send it as X-API-Key or Authorization: Bearer',
  })
}

function hashOf(secret: string): string {
  return sha256Hex(secret)
}

function withoutHash({ hash: _, ...key }: StoredKey): Key {
  return key
}
