/** Builds ClientHellos, valid or malformed. */

export interface HelloParts {
  readonly names?: readonly (string | Buffer)[]
  readonly extensions?: readonly (readonly [type: number, body: Buffer])[]
  readonly nameType?: number
  /** Bytes of the handshake in each record. */
  readonly recordBytes?: number
  readonly hasNoExtensions?: boolean
  readonly sessionBytes?: number
}

export function buildHello(parts: HelloParts = {}): Buffer {
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(parts.sessionBytes ?? 32, 1)),
    vector(2, Buffer.from([0x13, 0x01, 0x13, 0x02])),
    vector(1, Buffer.from([0])),
    ...(parts.hasNoExtensions ? [] : [vector(2, Buffer.concat(extensions(parts)))]),
  ])
  const message = Buffer.concat([Buffer.from([1]), length(3, body.length), body])
  return records(message, parts.recordBytes ?? message.length)
}

export function records(message: Buffer, size: number): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < message.length; at += size) {
    const piece = message.subarray(at, at + size)
    pieces.push(Buffer.from([22, 3, 1]), length(2, piece.length), piece)
  }
  return Buffer.concat(pieces)
}

export function vector(width: number, body: Buffer): Buffer {
  return Buffer.concat([length(width, body.length), body])
}

function length(width: number, value: number): Buffer {
  const bytes = Buffer.alloc(width)
  bytes.writeUIntBE(value, 0, width)
  return bytes
}

function extensions({ names, nameType = 0, extensions: more = [] }: HelloParts): Buffer[] {
  const list = names?.map((name) => Buffer.concat([Buffer.from([nameType]), vector(2, Buffer.from(name))]))
  const all: (readonly [number, Buffer])[] = [
    [43, Buffer.from([2, 3, 4])],
    ...(list ? [[0, vector(2, Buffer.concat(list))] as const] : []),
    [16, vector(2, Buffer.concat([vector(1, Buffer.from('h2')), vector(1, Buffer.from('http/1.1'))]))],
    ...more,
  ]
  return all.map(([type, body]) => Buffer.concat([length(2, type), vector(2, body)]))
}
