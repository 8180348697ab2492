/** Files of variables, such as .env. */

/** Of all values that are filled in, in one file. References beyond it stay as they are. */
const LONGEST_VALUES = 1024 * 1024

/**
 * NAME=VALUE lines, with quotes, comments and references as in Docker's own reader. `known` are variables
 * that a value may name, besides those of earlier lines. SECURITY: CF-02. Takes linear time: expressions with
 * several runs of spaces do not.
 */
export function readEnvFile(
  text: string,
  known: Readonly<Record<string, string>> = {},
): Record<string, string> {
  let length = 0
  const fill = (value: string): string =>
    value.replace(REFERENCE, (whole, braced, fallback, plain) => {
      if (whole === '\\$') return '$'
      const name = braced ?? plain
      const found = Object.hasOwn(made, name) ? made[name] : Object.hasOwn(known, name) ? known[name] : ''
      const filled = found || (fallback ?? '')
      length += filled.length
      return length > LONGEST_VALUES ? whole : filled
    })
  const made: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    const name = line
      .slice(0, Math.max(at, 0))
      .trim()
      .replace(/^export[ \t]+/, '')
    if (/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name)) made[name] = envValue(line.slice(at + 1).trim(), fill)
  }
  return made
}

/** `$A`, `${A}` and `${A:-default}`; `\$` is a dollar sign. */
const REFERENCE = /\\\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^{}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)/g

function envValue(raw: string, fill: (value: string) => string): string {
  const quote = raw[0]
  if (quote === '"' || quote === "'") {
    let end = raw.indexOf(quote, 1)
    while (quote === '"' && raw[end - 1] === '\\') end = raw.indexOf(quote, end + 1)
    const rest = raw.slice(end + 1).trimStart()
    if (end > 0 && (rest === '' || rest.startsWith('#'))) {
      const value = raw.slice(1, end)
      return quote === '"' ? fill(value.replaceAll('\\n', '\n').replaceAll('\\"', '"')) : value
    }
  }
  let comment = raw.indexOf('#')
  while (comment > 0 && !/\s/.test(raw[comment - 1] ?? '')) comment = raw.indexOf('#', comment + 1)
  return fill(comment < 0 ? raw : raw.slice(0, comment).trimEnd())
}
