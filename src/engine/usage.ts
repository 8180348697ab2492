/** How many sandboxes there are, and what they may use. */
import type { State } from '../core/lifecycle.ts'
import type { Principal } from '../core/principal.ts'
import type { Resources } from '../core/resources.ts'
import type { Context } from './context.ts'
import { DEFAULT_QUOTA, sandboxLimit } from './lifecycle/quota.ts'

/** What a caller's own sandboxes may use together, and how many more the caller may create. */
export interface Usage {
  readonly living: number
  /** Undefined if there is no limit. */
  readonly livingLimit: number | undefined
  /** The sum of the requested resources, used or not. */
  readonly asked: Resources
}

const NOTHING: Resources = {
  memoryMib: 0,
  swapMib: 0,
  cpus: 0,
  pids: 0,
  files: 0,
  tmpMib: 0,
  shmMib: 0,
  diskMib: 0,
}

export class UsageOperations {
  readonly #ctx: Pick<Context, 'registry' | 'quota'>

  constructor(ctx: Pick<Context, 'registry' | 'quota'>) {
    this.#ctx = ctx
  }

  of({ owner }: Principal): Usage {
    const own = this.#ctx.registry.existingOf(owner)
    const asked = own.reduce((sum, { spec }) => add(sum, spec.resources), NOTHING)
    return {
      living: own.length,
      livingLimit: sandboxLimit(this.#ctx.quota ?? DEFAULT_QUOTA, owner),
      asked,
    }
  }

  /** The number of sandboxes that have not ended. */
  get count(): number {
    return this.#ctx.registry.existing().length
  }

  /** The number of sandboxes that need a server to watch them. Paused and stopped ones do not. */
  get busyCount(): number {
    const isBusy = (state: State): boolean => state !== 'paused' && state !== 'stopped'
    return this.#ctx.registry.existing().filter(({ state }) => isBusy(state)).length
  }

  countByState(): Map<State, number> {
    const counts = new Map<State, number>()
    for (const { state } of this.#ctx.registry.existing()) counts.set(state, (counts.get(state) ?? 0) + 1)
    return counts
  }
}

function add(a: Resources, b: Resources): Resources {
  return {
    memoryMib: a.memoryMib + b.memoryMib,
    swapMib: a.swapMib + b.swapMib,
    cpus: a.cpus + b.cpus,
    pids: a.pids + b.pids,
    files: a.files + b.files,
    tmpMib: a.tmpMib + b.tmpMib,
    shmMib: a.shmMib + b.shmMib,
    diskMib: a.diskMib + b.diskMib,
  }
}
