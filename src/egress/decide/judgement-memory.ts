/**
 * Remembers the decisions of one policy. SECURITY: I7. A decision depends on nothing but the policy and the
 * key here, and a changed policy gets a new memory.
 */

import type { NetworkPolicy } from '../../policy/decide.ts'
import type { Destination } from '../destination.ts'
import { type Blocks, type Judgement, judge, type MethodAndPath } from './judge.ts'

/** A sandbox chooses the names, so the number is bounded. */
const MOST_REMEMBERED = 256

export class JudgementMemory {
  readonly #rules: { readonly policy: NetworkPolicy; readonly blocks: Blocks }
  /** Rules on paths decide about each path separately, and a sandbox can make up any path. */
  readonly #hasPaths: boolean
  readonly #known = new Map<string, Judgement>()

  constructor(policy: NetworkPolicy, blocks: Blocks) {
    this.#rules = { policy, blocks }
    this.#hasPaths = [...policy.rules, ...policy.denied].some(({ paths }) => paths !== undefined)
  }

  judge(destination: Destination, request?: MethodAndPath): Judgement {
    if (this.#hasPaths || destination.kind === 'address') return judge(this.#rules, destination, request)
    const { host, port } = destination
    // A host name contains no space, so different questions have different keys.
    const key = request ? `${host} ${port} ${request.method}` : `${host} ${port}`
    const known = this.#known.get(key)
    if (known) return known
    const judgement = judge(this.#rules, destination, request)
    if (this.#known.size >= MOST_REMEMBERED) this.#known.clear()
    this.#known.set(key, judgement)
    return judgement
  }
}
