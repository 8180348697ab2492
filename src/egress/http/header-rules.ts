/**
 * Headers that the user's rules set on requests to a host. SECURITY: LK-16. A value may be a credential, so
 * records do not contain it.
 */
import type { HeaderRule } from '../../core/network.ts'
import { type HostPattern, matchesHost } from '../../policy/rule.ts'
import { type Header, type RequestHead, without } from './head.ts'
import type { Site } from './request-target.ts'

/** Headers that describe the connection and the body cannot be set by a rule. */
const FRAME = /^(?:host|content-length|transfer-encoding|connection|upgrade|te|trailer|keep-alive|proxy-.*)$/

export function applyHeaderRules(
  head: RequestHead,
  { destination }: Site,
  rules: readonly HeaderRule[] | undefined,
): RequestHead {
  if (!rules || destination.kind === 'address') return head
  const set = rules
    .filter((rule) => matchesHost(rule.host as HostPattern, destination.host))
    .flatMap((rule) => Object.entries(rule.headers))
    .filter(([name]) => !FRAME.test(name.toLowerCase()))
  if (set.length === 0) return head
  const kept = set.reduce<readonly Header[]>(
    (headers, [name]) => without(headers, name.toLowerCase()),
    head.headers,
  )
  return { ...head, headers: [...kept, ...set] }
}
