/** One call of envd's protocol, for a guest. */
import type { Guest, GuestRequest, GuestResponse } from '../../core/guest.ts'
import type { FileCall } from '../../core/guest-files.ts'
import { EnvdRefusal, headerOf, invalidMessage } from './message.ts'

export interface EnvdCall {
  readonly guest: Guest
  readonly request: GuestRequest
  readonly query: URLSearchParams
  readonly signal: AbortSignal
}

export type EnvdHandler = (call: EnvdCall) => Promise<GuestResponse>

/** The user that a call names: by Basic authorization, by `username=`, or the default one. */
export function userOf({ request, query }: EnvdCall): string | undefined {
  const authorization = headerOf(request, 'authorization')
  if (authorization === '') return query.get('username') || undefined
  const encoded = /^basic ([A-Za-z0-9+/]*={0,2})$/i.exec(authorization)?.[1] ?? ''
  const login = Buffer.from(encoded, 'base64').toString('utf8')
  if (!login.includes(':')) throw new EnvdRefusal('unauthenticated', 'the authorization must be Basic')
  return login.slice(0, login.indexOf(':'))
}

/** The user that a file call acts as. SECURITY: the server sets the rules header; a client's is dropped. */
export function fileCall(call: EnvdCall): FileCall {
  const withSudo = headerOf(call.request, 'agentpod-file-rules') === 'e2b'
  return { user: userOf(call), withSudo, signal: call.signal }
}

export function needPath(path: string | null | undefined): string {
  if (path) return path
  throw invalidMessage('path is missing')
}
