/** E2B's signed file addresses: each opens one file, for one operation, one user and a limited time. */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { requestPath } from '../door/front-door.ts'
import { isSameToken } from '../door/sandbox-tokens.ts'

export interface SignedFile {
  readonly path: string
  readonly operation: 'read' | 'write'
  /** As in the request; empty when it names none. */
  readonly user: string
  /** Unix seconds, as in the request. */
  readonly expiration: string | undefined
}

export function signature(file: SignedFile, token: string): string {
  const parts = [file.path, file.operation, file.user, token]
  if (file.expiration !== undefined) parts.push(file.expiration)
  return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`
}

/** Whether the signature was made with this token. `isExpired` checks the time separately. */
export function isSigned(file: SignedFile, given: string, token: string): boolean {
  // SECURITY: the parts are joined with colons, and a path may contain some. A user name must not, or the
  // signature of one file would also fit another.
  if (file.user.includes(':')) return false
  return isSameToken(given, signature(file, token))
}

/** A signature is valid to the end of the second it names, as at E2B. */
export function isExpired({ expiration }: SignedFile, nowMs: number): boolean {
  return expiration !== undefined && !(Number(expiration) >= Math.floor(nowMs / 1000))
}

/** The signed file that a request asks for. Undefined without a signature. */
export function signedFileOf(request: IncomingMessage): { file: SignedFile; given: string } | undefined {
  if (requestPath(request) !== '/files') return undefined
  const query = new URLSearchParams((request.url ?? '').slice('/files'.length))
  const given = query.get('signature')
  if (given === null) return undefined
  return {
    given,
    file: {
      path: query.get('path') ?? '',
      operation: request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write',
      user: query.get('username') ?? '',
      expiration: query.get('signature_expiration') ?? undefined,
    },
  }
}

/** A URL with the checked fields only. */
export function fileUrl({ path, user }: SignedFile): string {
  const query = new URLSearchParams()
  if (path !== '') query.set('path', path)
  if (user !== '') query.set('username', user)
  return `/files?${query}`
}
