/**
 * Reads JSON, TOML or YAML that an untrusted program or project wrote. A value of an unexpected type counts
 * as missing.
 *
 * SECURITY: the keys may come from the data too, so only an object's own properties count, never inherited
 * ones.
 */

export type JsonObject = Readonly<Record<string, unknown>>

const EMPTY: JsonObject = Object.freeze(Object.create(null) as JsonObject)

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value below a path of keys; undefined where a key is missing. */
export function valueAt(value: unknown, ...keys: readonly string[]): unknown {
  let found = value
  for (const key of keys) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined
    found = found[key]
  }
  return found
}

export function objectAt(value: unknown, ...keys: readonly string[]): JsonObject {
  const found = valueAt(value, ...keys)
  return isObject(found) ? found : EMPTY
}

export function stringAt(value: unknown, ...keys: readonly string[]): string | undefined {
  const found = valueAt(value, ...keys)
  return typeof found === 'string' ? found : undefined
}

export function listAt(value: unknown, ...keys: readonly string[]): readonly unknown[] {
  const found = valueAt(value, ...keys)
  return Array.isArray(found) ? found : []
}
