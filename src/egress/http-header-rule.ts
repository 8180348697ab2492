/** Headers that the user has the way out set on requests to a host. SECURITY: LK-16. A value may be worth something, so it is in no record. */
import type { HeaderRule } from '../core/network.ts'
import { type HostPattern, matchesHost } from '../policy/rule.ts'
import { type Header, type RequestHead, without } from './http-head.ts'
import type { Site } from './http-target.ts'

/** The frame of a request is nobody's to set. */
const FRAME = /^(?:host|content-length|transfer-encoding|connection|upgrade|te|trailer|keep-alive|proxy-.*)$/

export function applyHeaderRules(
  head: RequestHead,
  { target }: Site,
  rules: readonly HeaderRule[] | undefined,
): RequestHead {
  if (!rules || target.kind === 'address') return head
  const set = rules
    .filter((rule) => matchesHost(rule.host as HostPattern, target.host))
    .flatMap((rule) => Object.entries(rule.headers))
    .filter(([name]) => !FRAME.test(name.toLowerCase()))
  if (set.length === 0) return head
  const kept = set.reduce<readonly Header[]>(
    (headers, [name]) => without(headers, name.toLowerCase()),
    head.headers,
  )
  return { ...head, headers: [...kept, ...set] }
}
