/** Names that mean something before any resolver is asked. */
import type { HostName } from './host-name.ts'

// SECURITY: NW-03, NW-04. The address check would catch most of them; a name that is refused first is not even resolved.
const NEVER: readonly string[] = [
  'localhost',
  'localdomain',
  'ip6-localhost',
  'ip6-loopback',
  'metadata',
  'metadata.goog',
  'metadata.google.internal',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
]
const NOT_PUBLIC: readonly string[] = ['local', 'internal', 'home.arpa', 'onion', 'invalid']

/** The machine itself and the metadata service of its cloud, which no rule opens. */
export function isNeverReachable(host: HostName): boolean {
  return NEVER.some((name) => isAtOrUnder(host, name))
}

/** Whether a name can belong to the public internet: a single label goes wherever the host's search list says. */
export function isPublicName(host: HostName): boolean {
  return host.includes('.') && !NOT_PUBLIC.some((name) => isAtOrUnder(host, name))
}

function isAtOrUnder(host: string, name: string): boolean {
  return host === name || host.endsWith(`.${name}`)
}
