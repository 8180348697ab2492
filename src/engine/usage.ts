import type { Principal } from '../core/principal.ts'
import type { Resources } from '../core/resources.ts'
import type { Context } from './context.ts'
import { DEFAULT_QUOTA, livingLimit } from './quota.ts'

/** What a caller's own living sandboxes may take together, and how many more there may be. */
export interface Usage {
  readonly living: number
  /** Undefined where there is no bound. */
  readonly livingLimit: number | undefined
  /** The sum of what they asked for, used or not. */
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

export function usage(ctx: Context, { owner }: Principal): Usage {
  const own = ctx.ledger.livingOf(owner)
  const asked = own.reduce((sum, { spec }) => add(sum, spec.resources), NOTHING)
  return { living: own.length, livingLimit: livingLimit(ctx.quota ?? DEFAULT_QUOTA, owner), asked }
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
