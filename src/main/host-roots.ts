/** The certificates that this machine trusts, from the bundle that its programs read. */
import { readFileSync } from 'node:fs'

const PLACES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]
const LONGEST_BYTES = 2 * 1024 * 1024
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+?-----END CERTIFICATE-----/g

/** Read once, on first use; empty if there is none. `named` is a file that an administrator chose instead. */
export function hostRoots(named: string | undefined): {
  hostRoots(): string
  readonly isSystemBundle: boolean
} {
  let roots: string | undefined
  return {
    isSystemBundle: named === undefined || named === '' || PLACES.includes(named),
    hostRoots() {
      roots ??= read([...(named ? [named] : []), ...PLACES])
      return roots
    },
  }
}

function read(places: readonly string[]): string {
  for (const place of places) {
    try {
      const certificates = readFileSync(place, 'utf8').match(CERTIFICATE) ?? []
      const text = `${certificates.join('\n')}\n`
      if (certificates.length > 0 && text.length <= LONGEST_BYTES) return text
    } catch {
      // Not every machine has every file.
    }
  }
  return ''
}
