/**
 * Several layers, lowest first, as one: what an upper one has or takes away is not taken from a lower one. A name that begins with `.wh.`
 * takes away the one behind it; `.wh..wh..opq` takes away everything that lower layers have in its directory.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readRawTar, tarEnd } from './tar.ts'

const WHITEOUT = '.wh.'
const OPAQUE = '.wh..wh..opq'

export async function mergeLayers(
  files: readonly string[],
  directory: string,
): Promise<{ readonly file: string; readonly digest: string }> {
  const [only] = files
  const file = join(directory, 'merged.tar')
  if (files.length === 1 && only !== undefined) return { file: only, digest: await digestOf(only) }
  const above: Above[] = []
  for (const one of files) above.push(await namesIn(one))
  await pipeline(
    Readable.from(merged(files, above), { objectMode: false }),
    createWriteStream(file, { mode: 0o600 }),
  )
  return { file, digest: await digestOf(file) }
}

async function* merged(files: readonly string[], above: readonly Above[]): AsyncGenerator<Buffer> {
  for (const [index, file] of files.entries()) {
    const upper = above.slice(index + 1)
    for await (const { path, raw } of readRawTar(createReadStream(file))) {
      if (upper.some((one) => covers(one, cleaned(path)))) {
        for await (const _ of raw());
      } else yield* raw()
    }
  }
  yield tarEnd()
}

/** What one layer has to say about those below it. */
interface Above {
  readonly names: ReadonlySet<string>
  /** Paths that are taken away, with all below them. */
  readonly removed: ReadonlySet<string>
  /** Directories of which nothing from below is seen. */
  readonly opaque: ReadonlySet<string>
}

async function namesIn(file: string): Promise<Above> {
  const [names, removed, opaque] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for await (const { path, type, raw } of readRawTar(createReadStream(file))) {
    const name = cleaned(path)
    const [parent, last] = split(name)
    if (last === OPAQUE) opaque.add(parent)
    else if (last.startsWith(WHITEOUT)) removed.add(join(parent, last.slice(WHITEOUT.length)))
    else {
      names.add(name)
      // Something that is no directory takes the place of one, and of all in it.
      if (type !== '5') removed.add(name)
    }
    for await (const _ of raw());
  }
  return { names, removed, opaque }
}

function covers({ names, removed, opaque }: Above, path: string): boolean {
  const [parent, last] = split(path)
  // A lower layer's own whiteout stands for the name that it takes away; it stays, unless that name is there again.
  const meant =
    last.startsWith(WHITEOUT) && last !== OPAQUE ? join(parent, last.slice(WHITEOUT.length)) : path
  if (names.has(meant) || removed.has(meant)) return true
  for (let at = split(meant)[0]; ; at = split(at)[0]) {
    if (removed.has(at) || opaque.has(at)) return true
    if (at === '.') return false
  }
}

function cleaned(path: string): string {
  return join('.', path.replace(/\/+$/, '')) || '.'
}

function split(path: string): [parent: string, last: string] {
  const at = path.lastIndexOf('/')
  return at < 0 ? ['.', path] : [path.slice(0, at), path.slice(at + 1)]
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk)
  return hash.digest('hex')
}
