/** What a request's Host header names: the API, a port of a sandbox, or nothing of this server. */
import { isSandboxId, type SandboxId } from '../../core/id.ts'

export type HostAddress =
  | { readonly kind: 'api' }
  | { readonly kind: 'sandbox'; readonly id: SandboxId; readonly port: number }
  /** SECURITY: CP-02. A foreign name that DNS points at this server is refused. */
  | { readonly kind: 'unknown' }

const API_NAMES = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * `domains` are those whose subdomains are sandboxes; `names` are further names of the API. The port in the
 * Host header is ignored, because a forwarded port still leads to this server.
 */
export function readHost(
  host: string | undefined,
  domains: readonly string[],
  names: readonly string[],
): HostAddress {
  const name = hostName(host)
  if (name === undefined) return { kind: 'unknown' }
  if (API_NAMES.has(name) || names.includes(name)) return { kind: 'api' }
  for (const domain of domains) {
    if (name === domain || name === `api.${domain}` || name === `sandbox.${domain}`) return { kind: 'api' }
    if (!name.endsWith(`.${domain}`)) continue
    const address = sandboxAt(name.slice(0, -domain.length - 1))
    // One domain may be a subdomain of another: `api.pods.localhost` is not a sandbox of `localhost`.
    if (address.kind === 'sandbox') return address
  }
  return { kind: 'unknown' }
}

/** `<port>-<id>`. */
function sandboxAt(label: string): HostAddress {
  const match = /^([1-9]\d{0,4})-([a-z0-9]+)$/.exec(label)
  const port = Number(match?.[1])
  const id = match?.[2] ?? ''
  if (!match || port > 65535 || !isSandboxId(id)) return { kind: 'unknown' }
  return { kind: 'sandbox', id, port }
}

function hostName(host: string | undefined): string | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]{1,253})(?::\d{1,5})?$/.exec(host?.toLowerCase() ?? '')
  return match?.[1]
}
