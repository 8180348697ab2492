/** SECURITY: NW-16. The server name (SNI) of a TLS connection must be the name that the policy allowed. */
import { readHostName } from '../../policy/host-name.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import { type Destination, hostText } from '../destination.ts'
import { newRefusal, type Refusal } from '../refusal.ts'
import type { ClientHello } from './client-hello.ts'

/**
 * Undefined if the name matches. Remaining gap: with an encrypted ClientHello, or a Host header in TLS that
 * is not decrypted (NW-17), the server of the allowed name may serve another name.
 */
export function checkServerName(
  sandbox: SandboxEgress,
  destination: Destination,
  { names }: ClientHello,
): Refusal | undefined {
  const [name, ...others] = names ?? []
  const reading = name && readHostName(name)
  if (destination.kind === 'address') {
    if (!name) return undefined
    if (others.length > 0 || !reading?.ok)
      return mismatch(destination, 'its server name (SNI) is not a valid host name')
    // Any name may be used with an allowed address, except a name that is denied.
    const { reason } = sandbox.judge({ kind: 'name', host: reading.host, port: destination.port })
    const isDenied = reason === 'rule.deny' || reason === 'host.never' || reason === 'request.unseen'
    return isDenied
      ? mismatch(destination, `its server name (SNI) is ${reading.host}, which is denied`)
      : undefined
  }
  if (!name) return mismatch(destination, 'it sends no server name (SNI)')
  if (others.length > 0) return mismatch(destination, 'it sends several server names (SNI)')
  if (!reading?.ok) return mismatch(destination, 'its server name (SNI) is not a valid host name')
  return reading.host === destination.host
    ? undefined
    : mismatch(destination, `its server name (SNI) is ${reading.host}`)
}

function mismatch(destination: Destination, why: string): Refusal {
  return newRefusal(
    403,
    'tls.sni',
    `this TLS connection is for ${hostText(destination)}, but ${why}`,
    'connect to the host by its name',
  )
}
