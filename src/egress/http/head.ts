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

/** Hop-by-hop headers, and those that only AgentPod sets: those of servers are removed. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'x-agentpod-cache',
  'x-agentpod-refused',
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])

/** From Node's flat list of names and values. */
export function pairs(raw: readonly string[]): Header[] {
  const headers: Header[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) headers.push([raw[at] ?? '', raw[at + 1] ?? ''])
  return headers
}

export function flat(headers: readonly Header[]): string[] {
  const list: string[] = []
  for (const [name, value] of headers) list.push(name, value)
  return list
}

export function valuesOf(headers: readonly Header[], name: string): string[] {
  return headers.filter(([one]) => isNamed(one, name)).map(([, value]) => value)
}

export function listOf(headers: readonly Header[], name: string): string[] {
  return valuesOf(headers, name)
    .flatMap((value) => value.split(','))
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== '')
}

/** The headers that are forwarded to the other end. */
export function endToEnd(headers: readonly Header[]): Header[] {
  const named = listOf(headers, 'connection')
  const kept = headers.filter(([name]) => {
    const lower = name.toLowerCase()
    return !NOT_FORWARDED.has(lower) && !named.includes(lower)
  })
  return listOf(headers, 'te').includes('trailers') ? [...kept, ['TE', 'trailers']] : kept
}

export function without(headers: readonly Header[], name: string): Header[] {
  return headers.filter(([one]) => !isNamed(one, name))
}

/** Most names differ in length, which costs less than to fold their case. */
function isNamed(one: string, name: string): boolean {
  return one.length === name.length && one.toLowerCase() === name
}
