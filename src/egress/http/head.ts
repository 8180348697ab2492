/** Heads of requests and responses as lists of headers, and which of them are hop-by-hop. */

export type Header = readonly [name: string, value: string]

export interface RequestHead {
  readonly method: string
  /** In origin form, or `*`. */
  readonly path: string
  readonly headers: readonly Header[]
}

export interface ResponseHead {
  readonly status: number
  readonly message: string
  readonly headers: readonly Header[]
}

/** Headers that only AgentPod sets; those of servers are removed. */
const OURS: readonly string[] = ['x-agentpod-cache', 'x-agentpod-refused']
const HOP_BY_HOP: readonly string[] = [
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]

/** From Node's flat list of names and values. */
export function pairs(raw: readonly string[]): Header[] {
  return Array.from(
    { length: raw.length / 2 },
    (_, at) => [raw[2 * at] ?? '', raw[2 * at + 1] ?? ''] as const,
  )
}

export function flat(headers: readonly Header[]): string[] {
  return headers.flat()
}

export function valuesOf(headers: readonly Header[], name: string): string[] {
  return headers.filter(([one]) => one.toLowerCase() === name).map(([, value]) => value)
}

export function listOf(headers: readonly Header[], name: string): string[] {
  return valuesOf(headers, name)
    .flatMap((value) => value.split(','))
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== '')
}

/** The headers that are forwarded to the other end. */
export function endToEnd(headers: readonly Header[]): Header[] {
  const named = new Set([...HOP_BY_HOP, ...listOf(headers, 'connection'), ...OURS])
  const kept = headers.filter(([name]) => !named.has(name.toLowerCase()))
  return listOf(headers, 'te').includes('trailers') ? [...kept, ['TE', 'trailers']] : kept
}

export function without(headers: readonly Header[], name: string): Header[] {
  return headers.filter(([one]) => one.toLowerCase() !== name)
}
