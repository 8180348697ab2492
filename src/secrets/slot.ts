/** The header of a request in which a placeholder is replaced by its value. */
import type { SecretScheme } from '../core/secret.ts'

/** The filled header value; undefined if it is not the placeholder in the declared scheme. */
export function fillSlot(
  header: string,
  { scheme, placeholder, value }: { scheme: SecretScheme; placeholder: string; value: string },
): string | undefined {
  switch (scheme.kind) {
    case 'bare':
      return header === placeholder ? value : undefined
    case 'prefix': {
      const [word, rest, ...more] = header.split(' ')
      const isSame = word?.toLowerCase() === scheme.prefix.toLowerCase() && rest === placeholder
      return isSame && more.length === 0 ? `${scheme.prefix} ${value}` : undefined
    }
    case 'basic': {
      const credentials = readBasic(header)
      if (credentials?.password !== placeholder) return undefined
      // SECURITY: SE-05. The user name comes from the secret, not from the sandbox.
      return `Basic ${Buffer.from(`${scheme.user || credentials.user}:${value}`).toString('base64')}`
    }
  }
}

function readBasic(header: string): { user: string; password: string } | undefined {
  const match = /^basic ([A-Za-z0-9+/]+={0,2})$/i.exec(header)
  if (!match?.[1]) return undefined
  const text = Buffer.from(match[1], 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) }
}
