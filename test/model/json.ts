/** Reads request bodies of agents: a missing value is empty. */

export function at(value: unknown, ...path: readonly string[]): unknown {
  let here = value
  for (const name of path)
    here = typeof here === 'object' && here !== null ? (here as Record<string, unknown>)[name] : undefined
  return here
}

export function textAt(value: unknown, ...path: readonly string[]): string {
  const found = at(value, ...path)
  return typeof found === 'string' ? found : ''
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

/** Content that is text, or a list of parts of which some are text. */
export function joined(content: unknown): string {
  if (typeof content === 'string') return content
  return Array.isArray(content) ? content.map((part) => textAt(part, 'text')).join('\n') : ''
}
