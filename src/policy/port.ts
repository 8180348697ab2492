/** Of a CONNECT, a URL or a rule; undefined for anything but plain digits from 1 to 65535. SECURITY: NW-15. */
export function readPort(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,4}$/.test(text)) return undefined
  const port = Number(text)
  return port <= 65_535 ? port : undefined
}
