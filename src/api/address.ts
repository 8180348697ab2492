/** What a request's Host means: the API, a sandbox's port, or nothing of ours. */
import { isSandboxId, type SandboxId } from '../core/id.ts'

/** envd's port: the data plane itself. */
export const DATA_PORT = 49983

export type Address =
  | { readonly kind: 'api' }
  | { readonly kind: 'sandbox'; readonly id: SandboxId; readonly port: number }
  /** SECURITY: CP-02. A name that somebody else's DNS points at us is refused. */
  | { readonly kind: 'unknown' }

const API_NAMES = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * `domains` are those whose subdomains are sandboxes; `names` are further names of the API itself. Ports in a Host are
 * not looked at: a forwarded port is still us.
 */
export function readHost(
  host: string | undefined,
  domains: readonly string[],
  names: readonly string[],
): Address {
  const name = hostName(host)
  if (name === undefined) return { kind: 'unknown' }
  if (API_NAMES.has(name) || names.includes(name)) return { kind: 'api' }
  for (const domain of domains) {
    if (name === domain || name === `api.${domain}` || name === `sandbox.${domain}`) return { kind: 'api' }
    if (!name.endsWith(`.${domain}`)) continue
    const address = sandboxAt(name.slice(0, -domain.length - 1))
    // One domain may lie below another: `api.e2b.localhost` is no sandbox of `localhost`.
    if (address.kind === 'sandbox') return address
  }
  return { kind: 'unknown' }
}

/** `<port>-<id>`. */
function sandboxAt(label: string): Address {
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
