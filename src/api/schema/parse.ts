import type { z } from 'zod'
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'

/** Parses outside data; the error names the path, and for an unknown key the nearest known one. */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const at = issue?.path.join('.') ?? ''
  if (issue?.code === 'unrecognized_keys') {
    const key = issue.keys[0] ?? ''
    const near = nearest(key, knownKeys(schema, issue.path))
    throw invalid(
      'request.unknown_key',
      `unknown key ${at ? `${at}.` : ''}${key}`,
      near && `did you mean ${near}?`,
    )
  }
  // For a key of a record, zod puts the message one level deeper.
  const why = issue?.code === 'invalid_key' ? issue.issues[0]?.message : issue?.message
  throw invalid('request.malformed', `${at || 'the body'}: ${why ?? 'is malformed'}`)
}

/** The keys of the object schema at a path, through optionals. */
function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = schema
  for (const key of [...path, undefined]) {
    while ((at as { unwrap?: unknown } | undefined)?.unwrap instanceof Function) {
      at = (at as { unwrap(): unknown }).unwrap()
    }
    const shape = (at as { shape?: Record<string, unknown> } | undefined)?.shape
    if (!shape) return []
    if (key === undefined) return Object.keys(shape)
    at = shape[String(key)]
  }
  return []
}
