/** Git's objects and packs, written byte by byte, so that they can be wrong in any way. */
import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

const TYPES = { commit: 1, tree: 2, blob: 3 } as const

export interface PackedObject {
  readonly type: keyof typeof TYPES
  readonly content: Buffer
}

export interface TreeEntry {
  readonly mode: string
  readonly name: string | Buffer
  readonly id: string
}

export const blob = (text: string | Buffer): PackedObject => ({ type: 'blob', content: Buffer.from(text) })

/** In the order and with the modes that are given, whatever git would say. */
export function tree(...entries: TreeEntry[]): PackedObject {
  const parts = entries.flatMap(({ mode, name, id }) => [
    Buffer.from(`${mode} `),
    Buffer.from(name),
    Buffer.from([0]),
    Buffer.from(id, 'hex'),
  ])
  return { type: 'tree', content: Buffer.concat(parts) }
}

export function idOf({ type, content }: PackedObject): string {
  return createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')
}

export function pack(objects: readonly PackedObject[], count = objects.length): Buffer {
  return sealed(
    count,
    objects.map(({ type, content }) => entry(TYPES[type], content.length, deflateSync(content))),
  )
}

/** A small blob, and a delta that claims to expand it to this size by repeating the same bytes. */
export function deltaBomb(resultBytes: number): Buffer {
  const source = Buffer.alloc(0xffff, 0x61)
  const copies = Math.ceil(resultBytes / source.length)
  // Copy from offset 0, 0xffff bytes.
  const delta = Buffer.concat([
    size(source.length),
    size(copies * source.length),
    Buffer.alloc(copies * 3, Buffer.from([0xb0, 0xff, 0xff])),
  ])
  const first = entry(TYPES.blob, source.length, deflateSync(source))
  return sealed(2, [first, entry(6, delta.length, Buffer.concat([offset(first.length), deflateSync(delta)]))])
}

/** A delta on an object that is not in the pack. */
export function thinPack(base: string): Buffer {
  const delta = Buffer.concat([size(1), size(1), Buffer.from([1, 0x78])])
  return sealed(1, [entry(7, delta.length, Buffer.concat([Buffer.from(base, 'hex'), deflateSync(delta)]))])
}

function sealed(count: number, parts: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(12)
  head.write('PACK', 0, 'latin1')
  head.writeUInt32BE(2, 4)
  head.writeUInt32BE(count, 8)
  const body = Buffer.concat([head, ...parts])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}

function entry(type: number, length: number, data: Buffer): Buffer {
  const head: number[] = []
  let rest = Math.floor(length / 16)
  head.push((type << 4) | (length & 15) | (rest > 0 ? 0x80 : 0))
  for (; rest > 0; rest = Math.floor(rest / 128)) head.push((rest & 0x7f) | (rest >= 128 ? 0x80 : 0))
  return Buffer.concat([Buffer.from(head), data])
}

function size(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  do {
    bytes.push((rest % 128) | (rest >= 128 ? 0x80 : 0))
    rest = Math.floor(rest / 128)
  } while (rest > 0)
  return Buffer.from(bytes)
}

/** How far back the other object begins, as git writes it. */
function offset(value: number): Buffer {
  const bytes = [value & 0x7f]
  for (let rest = value >> 7; rest > 0; rest >>= 7) {
    rest--
    bytes.unshift(0x80 | (rest & 0x7f))
  }
  return Buffer.from(bytes)
}
