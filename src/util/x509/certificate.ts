/** Makes certificates: an authority for this machine's names or for one sandbox, and server certificates. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIPv4 } from 'node:net'
import type { Random } from '../random.ts'
import * as der from './der.ts'

export interface Authority {
  readonly cert: string
  readonly key: string
}

export interface CertificateParts {
  readonly now: number
  readonly random: Random
}

const DAY_MS = 24 * 3_600_000
const AUTHORITY_DAYS = 3650
/** Clients refuse server certificates with a longer validity. */
const SERVER_DAYS = 397
/** Tolerates clocks of virtual machines that are behind. */
const SLACK_MS = DAY_MS

const AUTHORITY_NAME = 'AgentPod on this machine'
const ECDSA_SHA256 = der.sequence(der.objectId('1.2.840.10045.4.3.2'))

const ID = {
  commonName: '2.5.4.3',
  subjectKey: '2.5.29.14',
  keyUsage: '2.5.29.15',
  altName: '2.5.29.17',
  basic: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKey: '2.5.29.35',
  extendedUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
} as const

/**
 * SECURITY: constrained to localhost, its subdomains and loopback addresses; its key is useless for other
 * names.
 */
export function makeAuthority(parts: CertificateParts): Authority {
  return newAuthority(parts, AUTHORITY_NAME, [
    extension(ID.nameConstraints, der.sequence(der.context(0, Buffer.concat(PERMITTED))), true),
  ])
}

/** Signs for every name, and only one sandbox trusts it. SECURITY: its key stays outside the sandbox. */
export function makeSandboxAuthority(parts: CertificateParts, name: string): Authority {
  return newAuthority(parts, name, [])
}

function newAuthority(parts: CertificateParts, subject: string, constraints: readonly Buffer[]): Authority {
  const { publicKey, privateKey } = newKey()
  const cert = certificate({
    parts,
    issuer: subject,
    subject,
    days: AUTHORITY_DAYS,
    publicKey,
    signer: privateKey,
    extensions: [
      extension(ID.basic, der.sequence(der.yes(), der.integer(Buffer.from([0]))), true),
      // keyCertSign and cRLSign.
      extension(ID.keyUsage, der.bits(Buffer.from([0b0000_0110]), 1), true),
      ...constraints,
      extension(ID.subjectKey, der.octets(keyId(publicKey))),
    ],
  })
  return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
}

const PERMITTED = [
  der.sequence(der.context(2, Buffer.from('localhost'), true)),
  der.sequence(der.context(7, Buffer.from([127, 0, 0, 0, 255, 0, 0, 0]), true)),
  der.sequence(der.context(7, Buffer.from([...Array(15).fill(0), 1, ...Array(16).fill(255)]), true)),
]

/** A certificate with its own key for these names and addresses. */
export function makeCertificate(
  authority: Authority,
  names: readonly string[],
  parts: CertificateParts,
): Authority {
  const { publicKey, privateKey } = newKey()
  const signer = createPrivateKey(authority.key)
  const cert = certificate({
    parts,
    issuer: issuerOf(authority),
    subject: names[0] ?? 'localhost',
    days: SERVER_DAYS,
    publicKey,
    signer,
    extensions: [
      extension(ID.basic, der.sequence(), true),
      // digitalSignature.
      extension(ID.keyUsage, der.bits(Buffer.from([0b1000_0000]), 7), true),
      extension(ID.extendedUsage, der.sequence(der.objectId(ID.serverAuth))),
      extension(ID.altName, der.sequence(...names.map(altName))),
      extension(ID.subjectKey, der.octets(keyId(publicKey))),
      extension(ID.authorityKey, der.sequence(der.context(0, keyId(createPublicKey(signer)), true))),
    ],
  })
  return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
}

interface Signed {
  readonly parts: CertificateParts
  readonly issuer: string
  readonly subject: string
  readonly days: number
  readonly publicKey: KeyObject
  readonly signer: KeyObject
  readonly extensions: readonly Buffer[]
}

function certificate({ parts, issuer, subject, days, publicKey, signer, extensions }: Signed): string {
  const start = parts.now - SLACK_MS
  const content = der.sequence(
    der.context(0, der.integer(Buffer.from([2]))),
    der.integer(parts.random.bytes(16)),
    ECDSA_SHA256,
    name(issuer),
    der.sequence(der.derTime(start), der.derTime(start + days * DAY_MS)),
    name(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der.context(3, der.sequence(...extensions)),
  )
  const whole = der.sequence(content, ECDSA_SHA256, der.bits(sign('sha256', content, signer)))
  const lines = whole.toString('base64').replaceAll(/.{1,64}/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`
}

function issuerOf({ cert }: Authority): string {
  return /^CN=(.*)$/m.exec(new X509Certificate(cert).subject)?.[1] ?? AUTHORITY_NAME
}

function newKey(): { publicKey: KeyObject; privateKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
}

function name(text: string): Buffer {
  return der.sequence(der.set(der.sequence(der.objectId(ID.commonName), der.utf8(text))))
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return der.sequence(der.objectId(id), ...(isCritical ? [der.yes()] : []), der.octets(value))
}

function altName(one: string): Buffer {
  if (one === '::1') return der.context(7, Buffer.from([...Array(15).fill(0), 1]), true)
  if (isIPv4(one)) return der.context(7, Buffer.from(one.split('.').map(Number)), true)
  return der.context(2, Buffer.from(one), true)
}

function keyId(key: KeyObject): Buffer {
  return createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
}
