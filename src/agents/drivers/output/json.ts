/** Reads JSON from a hostile program: a value of another type counts as absent, and only own keys count. */
import { isObject, type JsonObject, valueAt } from '../../../util/untrusted-json.ts'

/** Parses a line that is a JSON object; undefined for everything else, such as log lines. */
export function readLine(line: string): JsonObject | undefined {
  if (!line.trimStart().startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Tokens, exit codes, dollars: finite, not negative, and small enough to add up. */
export function amountAt(value: unknown, ...keys: readonly string[]): number | undefined {
  const found = valueAt(value, ...keys)
  return typeof found === 'number' && found >= 0 && found <= 1e12 ? found : undefined
}
