/** What `serve --e2b-domain` means: E2B's names over TLS on this machine. */
import { invalid } from '../../core/error.ts'

export interface E2bDomain {
  readonly domain: string
  readonly port: number
}

const DEFAULT_PORT = 8443

/**
 * `NAME.localhost[:PORT]`. Only names below localhost: clients trust the server's own certificate authority
 * for them, and should not have to trust it for more.
 */
export function parseE2bDomain(text: string): E2bDomain {
  const match = /^((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+localhost)(?::(\d{1,5}))?$/.exec(
    text.toLowerCase(),
  )
  const port = Number(match?.[2] ?? DEFAULT_PORT)
  if (!match?.[1] || port > 65535) {
    throw invalid(
      'option.e2b-domain',
      `--e2b-domain is NAME.localhost or NAME.localhost:PORT, not ${JSON.stringify(text)}`,
      'for a domain of your own give --domain with --tls-cert and --tls-key',
    )
  }
  return { domain: match[1], port }
}
