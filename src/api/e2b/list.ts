/** E2B's list of sandboxes: filters, order and pages. */
import { invalid } from '../../core/error.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { isVolumeAccess } from '../../engine/volumes/volume-access.ts'
import type { ListQuery } from './schema.ts'
import { e2bStateOf } from './state.ts'
import { metadataOf, startedAt, templateOf } from './view.ts'

const DEFAULT_LIMIT = 100

export interface SandboxPage {
  readonly items: readonly Sandbox[]
  /** The token of the next page; undefined on the last page. */
  readonly next: string | undefined
}

/** Newest first by default. A page's token names its last sandbox, so that no sandbox appears twice. */
export function pageOf(all: readonly Sandbox[], query: ListQuery): SandboxPage {
  const isAscending = query.order === 'asc'
  const after = query.nextToken === undefined ? undefined : parseToken(query.nextToken)
  const limit = query.limit ?? DEFAULT_LIMIT
  const wanted = filtered(all, query)
    .map((sandbox) => ({ sandbox, at: startedAt(sandbox), id: sandbox.id as string }))
    .sort((a, b) => (isAscending ? compare(a, b) : compare(b, a)))
    .filter((one) => !after || (isAscending ? compare(one, after) > 0 : compare(one, after) < 0))
  const page = wanted.slice(0, limit)
  const last = page.at(-1)
  return {
    items: page.map(({ sandbox }) => sandbox),
    next: wanted.length > page.length && last ? writeToken(last) : undefined,
  }
}

export function filtered(all: readonly Sandbox[], query: ListQuery): Sandbox[] {
  const wanted = Object.entries(query.metadata === undefined ? {} : parseMetadata(query.metadata))
  const since = query.startedAfter === undefined ? undefined : Date.parse(query.startedAfter)
  return all.filter((sandbox) => {
    const state = e2bStateOf(sandbox)
    // Made by the server for files of a volume, not by a client.
    if (isVolumeAccess(sandbox)) return false
    if (state === undefined || (query.state && !query.state.includes(state))) return false
    const has = metadataOf(sandbox)
    if (!wanted.every(([key, value]) => Object.hasOwn(has, key) && has[key] === value)) return false
    // A sandbox that started at exactly this time is included, as at E2B.
    if (since !== undefined && startedAt(sandbox) < since) return false
    return query.template === undefined || templateOf(sandbox) === query.template
  })
}

/** `key=value&key=value`, where each part is URL-encoded a second time. */
export function parseMetadata(text: string): Record<string, string> {
  try {
    return Object.fromEntries(
      [...new URLSearchParams(text)].map(([key, value]) => [
        decodeURIComponent(key),
        decodeURIComponent(value),
      ]),
    )
  } catch {
    throw invalid('metadata.malformed', 'the metadata filter must be key=value pairs, each part URL-encoded')
  }
}

interface Position {
  readonly at: number
  readonly id: string
}

function compare(a: Position, b: Position): number {
  return a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
}

function writeToken({ at, id }: Position): string {
  return Buffer.from(`${at}:${id}`).toString('base64url')
}

function parseToken(token: string): Position {
  const match = /^(\d{1,15}):([a-z0-9]{1,20})$/.exec(Buffer.from(token, 'base64url').toString('latin1'))
  if (!match) throw invalid('list.next_token', 'nextToken is not valid')
  return { at: Number(match[1]), id: match[2] ?? '' }
}
