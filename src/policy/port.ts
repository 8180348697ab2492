/**
 * The port of a CONNECT, a URL or a rule. SECURITY: NW-15. Undefined for anything but plain digits from 1 to
 * 65535.
 */
export function readPort(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,4}$/.test(text)) return undefined
  const port = Number(text)
  return port <= 65_535 ? port : undefined
}
