/** The domain under which a client reaches the ports of its sandboxes. */
import type { TcpAddressView } from '../schema/server.ts'

/**
 * Derived from the Host header: a client behind a forwarded port must get the port it used. The TCP listener
 * has checked `host`. A request over the unix socket has no such host; it gets the address of the TCP
 * listener.
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
  // A certificate is valid for its own domain only. Plain HTTP needs none, and localhost works everywhere.
  const domain = (o.tcp?.isTls ? o.domains[0] : undefined) ?? 'localhost'
  if (['localhost', '127.0.0.1', '[::1]'].includes(name)) return domain + port
  return o.tcp ? `${domain}:${o.tcp.port}` : null
}
