/**
 * Faults that JSON.parse accepts: keys with a meaning in JavaScript, duplicate keys, unpaired surrogates,
 * depth.
 */

const DANGEROUS = new Set(['__proto__', 'constructor', 'prototype'])

export type JsonFault =
  | { readonly kind: 'depth' }
  | { readonly kind: 'dangerous_key'; readonly key: string }
  | { readonly kind: 'duplicate_key'; readonly key: string }
  | { readonly kind: 'surrogate' }

const STRING = /"(?:[^"\\]|\\.)*"/y

/** The first such fault in a text that JSON.parse accepts, or undefined. */
export function findJsonFault(text: string, deepest: number): JsonFault | undefined {
  // The keys of each open object; undefined for an array.
  const open: (Set<string> | undefined)[] = []
  let isKeyNext = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '{' || char === '[') {
      if (open.length === deepest) return { kind: 'depth' }
      open.push(char === '{' ? new Set() : undefined)
      isKeyNext = char === '{'
    } else if (char === '}' || char === ']') {
      open.pop()
      isKeyNext = false
    } else if (char === ',') {
      isKeyNext = open.at(-1) !== undefined
    } else if (char === '"') {
      STRING.lastIndex = at
      const raw = STRING.exec(text)?.[0] ?? '""'
      at += raw.length - 1
      const fault = stringFault(raw, isKeyNext ? open.at(-1) : undefined)
      if (fault) return fault
      isKeyNext = false
    }
  }
  return undefined
}

function stringFault(raw: string, keys: Set<string> | undefined): JsonFault | undefined {
  const isPlain = !raw.includes('\\')
  if (isPlain && !keys) return undefined
  const value = isPlain ? raw.slice(1, -1) : (JSON.parse(raw) as string)
  if (!value.isWellFormed()) return { kind: 'surrogate' }
  if (!keys) return undefined
  if (DANGEROUS.has(value)) return { kind: 'dangerous_key', key: value }
  if (keys.has(value)) return { kind: 'duplicate_key', key: value }
  keys.add(value)
  return undefined
}
