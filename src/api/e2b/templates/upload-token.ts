/**
 * The signed address of one upload: it names the owner, the hash of the files and when it expires. The SDKs
 * send nothing else with it.
 */
import type { IncomingMessage } from 'node:http'
import { isSameToken } from '../../door/sandbox-tokens.ts'

const VALID_MS = 3_600_000

/** SECURITY: CP-24. Exactly the path of the upload route, before any decoding. */
const PATH =
  /^\/templates\/(tpl[a-z0-9]{20})\/upload\/([0-9a-f]{64})\/([A-Za-z0-9_-]{1,200})\/(\d{1,15})\/([0-9a-f]{64})$/

export interface UploadSigner {
  /** Derived from the server's secret. */
  sign(text: string): string
  now(): number
}

export function uploadPath(
  { sign, now }: UploadSigner,
  o: { readonly templateId: string; readonly hash: string; readonly owner: string },
): string {
  const owner = Buffer.from(o.owner).toString('base64url')
  const expiresAt = now() + VALID_MS
  const signature = sign(textOf(o.templateId, o.hash, o.owner, expiresAt))
  return `/templates/${o.templateId}/upload/${o.hash}/${owner}/${expiresAt}/${signature}`
}

/** The owner for whom an upload is signed; undefined for any other request. */
export function uploadOwner({ sign, now }: UploadSigner, request: IncomingMessage): string | undefined {
  if (request.method !== 'PUT') return undefined
  const [, templateId = '', hash = '', word = '', expires = '', signature = ''] =
    PATH.exec((request.url ?? '').replace(/\?.*$/s, '')) ?? []
  if (signature === '') return undefined
  const owner = Buffer.from(word, 'base64url').toString('utf8')
  const expiresAt = Number(expires)
  if (!isSameToken(signature, sign(textOf(templateId, hash, owner, expiresAt)))) return undefined
  return expiresAt >= now() ? owner : undefined
}

function textOf(templateId: string, hash: string, owner: string, expiresAt: number): string {
  return JSON.stringify(['upload', templateId, hash, owner, expiresAt])
}
