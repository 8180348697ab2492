/**
 * A strict parser of the TLS ClientHello (RFC 8446 4.1.2). A message that can be read in several ways is
 * `bad`.
 */

export interface ClientHello {
  /** The host names of the server_name extension; undefined if there is no such extension. */
  readonly names: readonly Buffer[] | undefined
  /**
   * Encrypted ClientHello. SECURITY: NW-16. GREASE looks the same, so it is not refused; the visible name is
   * checked.
   */
  readonly hasEch: boolean
  readonly protocols: readonly string[]
}

export type HelloReading =
  | { readonly state: 'more' }
  | { readonly state: 'bad' }
  | { readonly state: 'whole'; readonly hello: ClientHello }

export const LONGEST_HELLO = 16 * 1024
const HANDSHAKE = 22
const CLIENT_HELLO = 1
const RECORD_HEADER = 5
const LONGEST_RECORD = 16 * 1024
const MOST_RECORDS = 64
const MOST_EXTENSIONS = 128
const SERVER_NAME = 0
const ALPN = 16
const ECH = 0xfe0d
const HOST_NAME = 0

export function readClientHello(bytes: Buffer): HelloReading {
  try {
    const message = handshake(bytes)
    return message ? { state: 'whole', hello: clientHello(new Fields(message)) } : MORE
  } catch (error) {
    if (error instanceof BadHello) return BAD
    throw error
  }
}

const MORE: HelloReading = { state: 'more' }
const BAD: HelloReading = { state: 'bad' }
class BadHello extends Error {}

/** The body of the handshake message, joined from its records. Cheap enough to call again for every byte. */
function handshake(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = []
  let [at, size, whole] = [0, 0, 0]
  for (let records = 0; records <= MOST_RECORDS; records++) {
    if (whole === 0 && size >= 4) whole = 4 + messageLength(Buffer.concat(parts))
    // Nothing may follow the message in its last record: the key exchange has not begun.
    if (whole > 0 && size > whole) throw new BadHello()
    if (whole > 0 && size === whole) return Buffer.concat(parts).subarray(4)
    if (bytes.length > at && bytes[at] !== HANDSHAKE) throw new BadHello()
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) throw new BadHello()
    if (bytes.length < at + RECORD_HEADER) return undefined
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > LONGEST_RECORD) throw new BadHello()
    const end = at + RECORD_HEADER + length
    if (bytes.length < end) return undefined
    parts.push(bytes.subarray(at + RECORD_HEADER, end))
    size += length
    at = end
  }
  throw new BadHello()
}

function messageLength(start: Buffer): number {
  const length = start.readUIntBE(1, 3)
  if (start[0] !== CLIENT_HELLO || length + 4 > LONGEST_HELLO) throw new BadHello()
  return length
}

function clientHello(fields: Fields): ClientHello {
  // The legacy version is 3.1 to 3.3 in every version of TLS with extensions.
  if (fields.number(1) !== 3 || fields.number(1) > 3) throw new BadHello()
  fields.bytes(32)
  if (fields.vector(1).length > 32) throw new BadHello()
  const suites = fields.vector(2)
  if (suites.length === 0 || suites.length % 2 !== 0) throw new BadHello()
  if (fields.vector(1).length === 0) throw new BadHello()
  if (fields.isAtEnd) return { names: undefined, hasEch: false, protocols: [] }
  const extensions = readExtensions(new Fields(fields.vector(2)))
  if (!fields.isAtEnd) throw new BadHello()
  const [names, protocols] = [extensions.get(SERVER_NAME), extensions.get(ALPN)]
  return {
    names: names && readNames(names),
    hasEch: extensions.has(ECH),
    protocols: protocols ? readProtocols(protocols) : [],
  }
}

function readExtensions(fields: Fields): Map<number, Buffer> {
  const found = new Map<number, Buffer>()
  while (!fields.isAtEnd) {
    const type = fields.number(2)
    // SECURITY: NW-16. With two extensions of one type, servers differ in which one they use.
    if (found.has(type) || found.size === MOST_EXTENSIONS) throw new BadHello()
    found.set(type, fields.vector(2))
  }
  return found
}

function readNames(extension: Buffer): Buffer[] {
  const outer = new Fields(extension)
  const list = new Fields(outer.vector(2))
  if (!outer.isAtEnd || list.isAtEnd) throw new BadHello()
  const names: Buffer[] = []
  while (!list.isAtEnd) {
    if (list.number(1) !== HOST_NAME) throw new BadHello()
    const name = list.vector(2)
    if (name.length === 0) throw new BadHello()
    names.push(name)
  }
  return names
}

function readProtocols(extension: Buffer): string[] {
  const outer = new Fields(extension)
  const list = new Fields(outer.vector(2))
  if (!outer.isAtEnd) throw new BadHello()
  const protocols: string[] = []
  while (!list.isAtEnd) protocols.push(list.vector(1).toString('latin1'))
  return protocols
}

class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  bytes(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new BadHello()
    const bytes = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return bytes
  }

  number(width: number): number {
    return this.bytes(width).readUIntBE(0, width)
  }

  /** A byte string with a length prefix of `width` bytes. */
  vector(width: number): Buffer {
    return this.bytes(this.number(width))
  }
}
