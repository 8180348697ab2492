import type { Context } from 'hono'
import type { z } from 'zod'
import { invalid } from '../../core/error.ts'
import { parseInput } from '../schema/parse.ts'

/** Parses the query of a request. A repeated parameter is an error, unless it is a list. */
export function parseQuery<T>(schema: z.ZodType<T>, c: Context): T {
  const shape = (schema as unknown as { shape: Record<string, z.ZodType> }).shape
  const given: Record<string, unknown> = {}
  for (const [name, values] of Object.entries(c.req.queries())) {
    const isMany = Object.hasOwn(shape, name) && isList(shape[name])
    if (!isMany && values.length > 1) throw invalid('query.repeated', `${name} is given twice`)
    Object.defineProperty(given, name, { value: isMany ? values : values[0], enumerable: true })
  }
  return parseInput(schema, given)
}

function isList(schema: z.ZodType | undefined): boolean {
  let at: unknown = schema
  while ((at as { unwrap?: unknown } | undefined)?.unwrap instanceof Function) {
    if ((at as { type?: string }).type === 'array') return true
    at = (at as { unwrap(): unknown }).unwrap()
  }
  return (at as { type?: string } | undefined)?.type === 'array'
}
