/** Where a request goes: what its first line, its Host header and the connection it came in on say, which must be one thing. */

import { malformed } from './http-check.ts'
import type { Header } from './http-head.ts'
import { valuesOf } from './http-head.ts'
import { type Refusal, refusal } from './refusal.ts'
import { hostText, isSameTarget, readAuthority, type Target } from './target.ts'

export interface Site {
  readonly scheme: 'http' | 'https'
  readonly target: Target
}

const PORTS: Readonly<Record<Site['scheme'], number>> = { http: 80, https: 443 }
const PATH = /^\/[!-~]*$/
const ABSOLUTE = /^(https?):\/\/([^/?#]*)([^#]*)$/i

export interface Aimed {
  readonly site: Site
  readonly path: string
}

/** `on` is the site that the connection leads to, or `proxy` where each request says it. */
export function aimOf(
  {
    method,
    url,
    headers,
  }: { readonly method: string; readonly url: string; readonly headers: readonly Header[] },
  on: Site | 'proxy',
): Aimed | Refusal {
  const absolute = ABSOLUTE.exec(url)
  const path = absolute ? pathOf(absolute[3] ?? '') : url
  if (!(PATH.test(path) && !path.includes('#')) && !(path === '*' && method === 'OPTIONS'))
    return malformed('target', 'has no plain path')
  const named = absolute ? siteOf(absolute[1] ?? '', absolute[2] ?? '') : undefined
  if (absolute && !named) return malformed('host', 'names no plain host')
  if (on === 'proxy') {
    if (!named)
      return refusal(400, 'http.target', 'this is a proxy, and the request names no host', 'use it as one')
    if (named.scheme === 'https')
      return refusal(400, 'http.target', 'TLS goes through a proxy with CONNECT', 'use CONNECT for https')
  }
  const site = on === 'proxy' ? (named as Site) : on
  // SECURITY: NW-17, NW-18. One connection is for one site, whatever the requests in it say.
  if (named && (named.scheme !== site.scheme || !isSameTarget(named.target, site.target)))
    return misdirected(site)
  const host = readAuthority(valuesOf(headers, 'host')[0] ?? '', PORTS[site.scheme])
  if (!host) return malformed('host', 'has a Host header that names no plain host')
  if (isSameTarget(host, site.target)) return { site, path }
  return named ? malformed('host', 'has a Host header that differs from its first line') : misdirected(site)
}

export function isRefusal(value: Aimed | Refusal): value is Refusal {
  return 'status' in value
}

/** As it goes into a Host header. */
export function hostHeader({ scheme, target }: Site): string {
  const text = hostText(target)
  const host = text.includes(':') ? `[${text}]` : text
  return target.port === PORTS[scheme] ? host : `${host}:${target.port}`
}

function siteOf(scheme: string, authority: string): Site | undefined {
  const known = scheme.toLowerCase() === 'https' ? 'https' : 'http'
  const target = readAuthority(authority, PORTS[known])
  return target && { scheme: known, target }
}

function pathOf(rest: string): string {
  return rest.startsWith('/') ? rest : `/${rest}`
}

function misdirected(site: Site): Refusal {
  return refusal(
    421,
    'http.misdirected',
    `this connection leads to ${hostHeader(site)}, and the request is for another host`,
    'connect to that host',
  )
}
