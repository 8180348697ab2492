/** The target of a request. Its request line, its Host header and its connection must agree. */

import { type Destination, hostText, isSameDestination, readAuthority } from '../destination.ts'
import { newRefusal, type Refusal } from '../refusal.ts'
import { malformedRequest } from './check-head.ts'
import type { Header } from './head.ts'
import { valuesOf } from './head.ts'

export interface Site {
  readonly scheme: 'http' | 'https'
  readonly destination: Destination
}

const PORTS: Readonly<Record<Site['scheme'], number>> = { http: 80, https: 443 }
const PATH = /^\/[!-~]*$/
const ABSOLUTE = /^(https?):\/\/([^/?#]*)([^#]*)$/i

export interface RequestTarget {
  readonly site: Site
  readonly path: string
}

/** `on` is the site that the connection is for, or `proxy` if each request names its own. */
export function readRequestTarget(
  {
    method,
    url,
    headers,
  }: { readonly method: string; readonly url: string; readonly headers: readonly Header[] },
  on: Site | 'proxy',
): RequestTarget | Refusal {
  const absolute = ABSOLUTE.exec(url)
  const path = absolute ? pathOf(absolute[3] ?? '') : url
  if (!(PATH.test(path) && !path.includes('#')) && !(path === '*' && method === 'OPTIONS'))
    return malformedRequest('target', 'has no valid path')
  const named = absolute ? siteOf(absolute[1] ?? '', absolute[2] ?? '') : undefined
  if (absolute && !named) return malformedRequest('host', 'does not name a valid host')
  if (on === 'proxy') {
    if (!named)
      return newRefusal(
        400,
        'http.target',
        'this is a proxy, and the request has no absolute URL',
        'configure the client to use an HTTP proxy',
      )
    if (named.scheme === 'https')
      return newRefusal(400, 'http.target', 'HTTPS through a proxy needs CONNECT', 'use CONNECT for https')
  }
  const site = on === 'proxy' ? (named as Site) : on
  // SECURITY: NW-17, NW-18. All requests of a connection are for one site.
  if (named && (named.scheme !== site.scheme || !isSameDestination(named.destination, site.destination)))
    return misdirected(site)
  const text = valuesOf(headers, 'host')[0] ?? ''
  // Exactly what AgentPod itself would write can only mean this site, so it is not read.
  if (site.destination.kind === 'name' && text === hostHeader(site)) return { site, path }
  const host = readAuthority(text, PORTS[site.scheme])
  if (!host) return malformedRequest('host', 'has a Host header that is not a valid host')
  if (isSameDestination(host, site.destination)) return { site, path }
  return named
    ? malformedRequest('host', 'has a Host header that differs from its request line')
    : misdirected(site)
}

export function isRefusal(value: RequestTarget | Refusal): value is Refusal {
  return 'status' in value
}

/** The value of the Host header for a site. */
export function hostHeader({ scheme, destination }: Site): string {
  const text = hostText(destination)
  const host = text.includes(':') ? `[${text}]` : text
  return destination.port === PORTS[scheme] ? host : `${host}:${destination.port}`
}

function siteOf(scheme: string, authority: string): Site | undefined {
  const known = scheme.toLowerCase() === 'https' ? 'https' : 'http'
  const destination = readAuthority(authority, PORTS[known])
  return destination && { scheme: known, destination }
}

function pathOf(rest: string): string {
  return rest.startsWith('/') ? rest : `/${rest}`
}

function misdirected(site: Site): Refusal {
  return newRefusal(
    421,
    'http.misdirected',
    `this connection is to ${hostHeader(site)}, but the request is for another host`,
    'open a connection to that host',
  )
}
