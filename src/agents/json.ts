/** Reading JSON that a hostile program wrote: what is not of the expected type is not there, and only keys of the object itself count. */

export type Json = Readonly<Record<string, unknown>>

const NOTHING: Json = Object.freeze(Object.create(null) as Json)

/** An object on a line of its own; undefined for everything else, such as log lines. */
export function readLine(line: string): Json | undefined {
  if (!line.trimStart().startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What lies below, key by key; undefined where the way ends early. */
export function at(value: unknown, ...keys: readonly string[]): unknown {
  let found = value
  for (const key of keys) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined
    found = found[key]
  }
  return found
}

export function objectAt(value: unknown, ...keys: readonly string[]): Json {
  const found = at(value, ...keys)
  return isObject(found) ? found : NOTHING
}

export function textAt(value: unknown, ...keys: readonly string[]): string | undefined {
  const found = at(value, ...keys)
  return typeof found === 'string' ? found : undefined
}

export function listAt(value: unknown, ...keys: readonly string[]): readonly unknown[] {
  const found = at(value, ...keys)
  return Array.isArray(found) ? found : []
}

/** Tokens, exit codes, dollars: finite, not negative, and small enough to be added up. */
export function amountAt(value: unknown, ...keys: readonly string[]): number | undefined {
  const found = at(value, ...keys)
  return typeof found === 'number' && found >= 0 && found <= 1e12 ? found : undefined
}
