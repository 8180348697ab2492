/** Writes certificates in Java's format: a JKS file of trusted entries, which is not encrypted. */
import { createHash } from 'node:crypto'

const MAGIC = 0xfeedfeed
const VERSION = 2
const TRUSTED = 2
/** Hashed after the password, at the start of the digest at the end of the file. */
const SALT = 'Mighty Aphrodite'
/** Java's default password. A reader without a password ignores the digest. */
export const TRUST_STORE_PASSWORD = 'changeit'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----/g

/** One entry per certificate in the PEM text, in its order. */
export function trustStore(pem: string, now: number): Buffer {
  const certificates = [...pem.matchAll(CERTIFICATE)].map(([, text = '']) => Buffer.from(text, 'base64'))
  const content = Buffer.concat([
    uint32(MAGIC),
    uint32(VERSION),
    uint32(certificates.length),
    ...certificates.map((certificate, at) => entry(`agentpod-${at}`, certificate, now)),
  ])
  const password = Buffer.from(TRUST_STORE_PASSWORD, 'utf16le').swap16()
  const digest = createHash('sha1').update(password).update(SALT).update(content).digest()
  return Buffer.concat([content, digest])
}

function entry(alias: string, certificate: Buffer, now: number): Buffer {
  const date = Buffer.alloc(8)
  date.writeBigInt64BE(BigInt(now))
  return Buffer.concat([
    uint32(TRUSTED),
    text(alias),
    date,
    text('X.509'),
    uint32(certificate.length),
    certificate,
  ])
}

function text(words: string): Buffer {
  const bytes = Buffer.from(words, 'ascii')
  const length = Buffer.alloc(2)
  length.writeUInt16BE(bytes.length)
  return Buffer.concat([length, bytes])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
