/** SECURITY: NW-16. The name in the clear of a TLS connection is the name that was decided upon, or the connection ends. */
import { readHostName } from '../policy/host-name.ts'
import type { ClientHello } from './client-hello.ts'
import type { Link } from './link.ts'
import { type Refusal, refusal } from './refusal.ts'
import { hostText, type Target } from './target.ts'

/**
 * Undefined where it is in order. What is left: behind an encrypted client hello, or a Host header in a tunnel that is not opened (NW-17), a server of the allowed name may serve
 * another one.
 */
export function checkServerName(link: Link, target: Target, { names }: ClientHello): Refusal | undefined {
  const [name, ...others] = names ?? []
  const reading = name && readHostName(name)
  if (target.kind === 'address') {
    if (!name) return undefined
    if (others.length > 0 || !reading?.ok) return no(target, 'it names no plain server')
    // An address stands for no name, yet a name that is denied is not reached by its address.
    const { reason } = link.judge({ kind: 'name', host: reading.host, port: target.port })
    const isDenied = reason === 'rule.deny' || reason === 'host.never' || reason === 'request.unseen'
    return isDenied ? no(target, `${reading.host} is denied`) : undefined
  }
  if (!name) return no(target, 'it does not name its server (SNI)')
  if (others.length > 0) return no(target, 'it names several servers')
  if (!reading?.ok) return no(target, 'it names no plain server')
  return reading.host === target.host ? undefined : no(target, `it is for ${reading.host}`)
}

function no(target: Target, why: string): Refusal {
  return refusal(
    403,
    'tls.sni',
    `this connection was made for ${hostText(target)}, and its TLS does not say so: ${why}`,
    'connect to the host by its name',
  )
}
