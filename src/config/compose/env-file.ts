/** Files of variables, such as .env. */

/**
 * NAME=VALUE lines, with quotes and comments as in Docker's own reader. SECURITY: CF-02. Takes linear time:
 * expressions with several runs of spaces do not.
 */
export function readEnvFile(text: string): Record<string, string> {
  const made: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    const name = line
      .slice(0, Math.max(at, 0))
      .trim()
      .replace(/^export[ \t]+/, '')
    if (/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name)) made[name] = envValue(line.slice(at + 1).trim())
  }
  return made
}

function envValue(raw: string): string {
  const quote = raw[0]
  if (quote === '"' || quote === "'") {
    let end = raw.indexOf(quote, 1)
    while (quote === '"' && raw[end - 1] === '\\') end = raw.indexOf(quote, end + 1)
    const rest = raw.slice(end + 1).trimStart()
    if (end > 0 && (rest === '' || rest.startsWith('#'))) {
      const value = raw.slice(1, end)
      return quote === '"' ? value.replaceAll('\\n', '\n').replaceAll('\\"', '"') : value
    }
  }
  let comment = raw.indexOf('#')
  while (comment > 0 && !/\s/.test(raw[comment - 1] ?? '')) comment = raw.indexOf('#', comment + 1)
  return comment < 0 ? raw : raw.slice(0, comment).trimEnd()
}
