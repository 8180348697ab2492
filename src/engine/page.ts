/** Lists of sandboxes, newest first, one page at a time. */
import { invalid } from '../core/error.ts'
import { isSandboxId } from '../core/id.ts'
import type { State } from '../core/lifecycle.ts'
import { maySee, type Principal } from '../core/principal.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Context } from './context.ts'

export interface PageRequest {
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly state?: State | undefined
  readonly name?: string | undefined
  /** Includes sandboxes that have ended. */
  readonly all?: boolean | undefined
  readonly limit: number
  /** The `next` of the page before. */
  readonly after?: string | undefined
}

export interface Page {
  readonly sandboxes: readonly Sandbox[]
  readonly next: string | undefined
}

type Position = Pick<Sandbox, 'createdAt'> & { readonly id: string }

/**
 * Existing sandboxes are listed from memory. Ended ones come from the store, which has an index for each
 * filter.
 */
export function page(ctx: Context, o: PageRequest, who: Principal): Page {
  const before = o.after === undefined ? undefined : positionOf(o.after)
  // One more than requested shows whether there is a following page.
  const limit = o.limit + 1
  const found = o.all
    ? ctx.sandboxes.page({
        before,
        limit,
        owner: who.isAdmin ? undefined : who.owner,
        state: o.state,
        name: o.name,
        labels: o.labels,
      })
    : existing(ctx, o, who)
        .filter((sandbox) => !before || compare(sandbox, before) < 0)
        .slice(0, limit)
  const sandboxes = found.slice(0, o.limit)
  const last = found.length > o.limit ? sandboxes.at(-1) : undefined
  return { sandboxes, next: last && `${last.createdAt}-${last.id}` }
}

function existing(ctx: Context, o: PageRequest, who: Principal): Sandbox[] {
  const wanted = Object.entries(o.labels ?? {})
  return ctx.registry
    .existing()
    .filter(
      (sandbox) =>
        maySee(who, sandbox) &&
        (o.state === undefined || sandbox.state === o.state) &&
        (o.name === undefined || sandbox.name === o.name) &&
        wanted.every(([key, value]) => sandbox.labels[key] === value),
    )
    .sort((a, b) => compare(b, a))
}

function compare(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
}

function positionOf(cursor: string): Position {
  const [, at, id = ''] = /^(\d{1,15})-([a-z0-9]+)$/.exec(cursor) ?? []
  if (at === undefined || !isSandboxId(id))
    throw invalid('page.after', '`after` must be the value of the agentpod-next header of the page before')
  return { createdAt: Number(at), id }
}
