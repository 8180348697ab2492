/** Which domain a client finds the ports of its sandboxes under. */
import type { TcpAddressView } from '../schema/server.ts'

/**
 * The client's own view decides: behind a forwarded port it must get the port it came in by. `host` has passed the door's
 * check; what came over the unix socket has none of ours, and the listener's address stands in.
 */
export function sandboxDomain(
  host: string | undefined,
  o: { readonly domains: readonly string[]; readonly tcp: TcpAddressView | undefined },
): string | null {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(\d{1,5}))?$/.exec(host?.toLowerCase() ?? '')
  const name = match?.[1] ?? ''
  const port = match?.[2] === undefined ? '' : `:${match[2]}`
  const own = o.domains.find((domain) => name === domain || name.endsWith(`.${domain}`))
  if (own !== undefined) return own + port
  // A certificate is for the domain it was made for; plain http needs none, and localhost works everywhere.
  const domain = (o.tcp?.isTls ? o.domains[0] : undefined) ?? 'localhost'
  if (['localhost', '127.0.0.1', '[::1]'].includes(name)) return domain + port
  return o.tcp ? `${domain}:${o.tcp.port}` : null
}
