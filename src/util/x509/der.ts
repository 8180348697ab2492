/** The part of ASN.1's DER encoding that certificates need. */

export function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents)
  return Buffer.concat([Buffer.from([tag]), length(body.length), body])
}

export const sequence = (...items: readonly Uint8Array[]): Buffer => der(0x30, ...items)
export const set = (...items: readonly Uint8Array[]): Buffer => der(0x31, ...items)
export const octets = (bytes: Uint8Array): Buffer => der(0x04, bytes)
export const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text))
export const yes = (): Buffer => der(0x01, Buffer.from([0xff]))
/** A context-specific tag; `isPlain` if the content is bytes and not a structure. */
export const context = (number: number, content: Uint8Array, isPlain = false): Buffer =>
  der((isPlain ? 0x80 : 0xa0) | number, content)

/** A bit string without its last `unused` bits. */
export function bits(bytes: Uint8Array, unused = 0): Buffer {
  return der(0x03, Buffer.from([unused]), bytes)
}

/** A non-negative number, from its big-endian bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0)
  const shortest = first < 0 ? Buffer.from([0]) : Buffer.from(bytes.subarray(first))
  return der(0x02, Buffer.from((shortest[0] ?? 0) > 0x7f ? [0] : []), shortest)
}

/** `1.2.840.10045.4.3.2` */
export function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

/** Certificates write two digits for years up to 2049 and four after that. */
export function derTime(ms: number): Buffer {
  const text = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '')
  const isShort = new Date(ms).getUTCFullYear() < 2050
  return der(isShort ? 0x17 : 0x18, Buffer.from(isShort ? text.slice(2) : text))
}

function base128(number: number): number[] {
  const digits = [number & 0x7f]
  for (let rest = number >>> 7; rest > 0; rest >>>= 7) digits.unshift((rest & 0x7f) | 0x80)
  return digits
}

function length(size: number): Buffer {
  if (size < 0x80) return Buffer.from([size])
  const bytes: number[] = []
  for (let rest = size; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return Buffer.from([0x80 | bytes.length, ...bytes])
}
