/** Names with a special meaning, which are decided before any lookup. */
import type { HostName } from './host-name.ts'

// SECURITY: NW-03, NW-04. The address check would catch most of them; refused here, the name is not even
// resolved.
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

/** The host machine and cloud metadata services, which no rule can allow. */
export function isNeverReachable(host: HostName): boolean {
  return NEVER.some((name) => isAtOrUnder(host, name))
}

/** Whether a name can be a public host name. A single label depends on the search list of the host. */
export function isPublicName(host: HostName): boolean {
  return host.includes('.') && !NOT_PUBLIC.some((name) => isAtOrUnder(host, name))
}

function isAtOrUnder(host: string, name: string): boolean {
  return host === name || host.endsWith(`.${name}`)
}
