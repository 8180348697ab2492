/** Whole files and archives: `/files` and `/agentpod/tar`. */
import { posix } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import type { GuestRequest, GuestResponse } from '../../core/guest.ts'
import { type EnvdCall, type EnvdHandler, fileCall, needPath, userOf } from './call.ts'
import { EnvdRefusal, headerOf, invalidMessage, json, tooLarge, unknownEncoding } from './message.ts'
import { MultipartError, type Part, readParts } from './multipart.ts'

const MOST_PARTS = 10_000
const METADATA = 'x-metadata-'
/** SECURITY: the highest ratio of decompressed to compressed bytes of a body that is not small. */
const MOST_RATIO = 1000
const FREE_BYTES = 64 * 1024 * 1024
const MOST_BYTES = 64 * 1024 ** 3

export const TRANSFER_CALLS: Readonly<Record<string, EnvdHandler>> = {
  'GET /files': download,
  'POST /files': upload,
  'POST /agentpod/tar': async (call) => {
    const encoding = headerOf(call.request, 'content-encoding')
    if (!['', 'identity', 'gzip'].includes(encoding)) throw unknownEncoding(encoding)
    const { request, query, signal } = call
    const o = { user: userOf(call), isGzip: encoding === 'gzip', signal }
    await call.guest.archive.unpack(query.get('path') ?? '', request.body ?? Readable.from([]), o)
    return json(200, {})
  },
  'GET /agentpod/tar': async (call) => {
    const { guest, query, signal } = call
    const body = await guest.archive.pack(query.get('path') ?? '', { user: userOf(call), signal })
    return { status: 200, headers: { 'content-type': 'application/x-tar' }, body }
  },
}

async function download(call: EnvdCall): Promise<GuestResponse> {
  const path = needPath(call.query.get('path'))
  const { sizeBytes, modifiedAt, content } = await call.guest.files.read(path, fileCall(call))
  const headers = {
    'content-type': 'application/octet-stream',
    'x-content-type-options': 'nosniff',
    'content-disposition': `inline; filename*=UTF-8''${escaped(posix.basename(path))}`,
    vary: 'Accept-Encoding',
  }
  // fetch accepts gzip on every request, though it costs more than it saves here. A client that only accepts
  // gzip means it.
  if (headerOf(call.request, 'accept-encoding') === 'gzip') {
    const body = createGzip({ level: 1 })
    pipeline(content, body, () => undefined)
    return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body }
  }
  const known = {
    ...(modifiedAt && { 'last-modified': modifiedAt.toUTCString() }),
    ...(sizeBytes !== undefined && { 'content-length': String(sizeBytes) }),
  }
  return { status: 200, headers: { ...headers, ...known }, body: content }
}

/** As Go's url.PathEscape writes it. */
function escaped(name: string): string {
  return encodeURIComponent(name)
    .replaceAll(/%(?:24|26|2B|3A|3D|40)/g, decodeURIComponent)
    .replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** One file from a plain body, or the parts of a form. */
async function upload(call: EnvdCall): Promise<GuestResponse> {
  const { request, query } = call
  const o = { ...fileCall(call), ...metadataOf(request) }
  const path = query.get('path') ?? ''
  const store = async (name: string, content: Readable): Promise<object> => {
    const full = await call.guest.files.write(name, content, o).catch((error: unknown) => {
      // Report an error of the body itself: the guest only saw the stream break off.
      throw content.errored instanceof EnvdRefusal || content.errored instanceof MultipartError
        ? content.errored
        : error
    })
    return {
      name: posix.basename(full),
      path: full,
      type: 'file',
      ...(o.metadata && { metadata: o.metadata }),
    }
  }
  const type = headerOf(request, 'content-type')
  const boundary = boundaryOf(type)
  if (/^application\/octet-stream\s*(;|$)/i.test(type)) {
    return json(200, [await store(needPath(path), decodedBody(request))])
  }
  if (boundary !== undefined) return json(200, await storeParts(decodedBody(request), boundary, path, store))
  const message = 'the body must be multipart/form-data or application/octet-stream'
  throw new EnvdRefusal('invalid_argument', message, 415)
}

function boundaryOf(type: string): string | undefined {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(type) ?? []
  return quoted ?? plain
}

/**
 * Writes each part named "file". With a path there may be only one; without it, a part's filename is its
 * path.
 */
async function storeParts(
  body: Readable,
  boundary: string,
  path: string,
  store: (name: string, content: Readable) => Promise<object>,
): Promise<object[]> {
  const done: object[] = []
  let count = 0
  try {
    for await (const part of readParts(body, boundary)) {
      if (++count > MOST_PARTS) throw tooLarge(`the form has more than ${MOST_PARTS} parts`)
      if (part.name !== 'file') continue
      if (path !== '' && done.length > 0) {
        throw invalidMessage('path names one file, but the form contains several')
      }
      done.push(await store(targetOf(path, part), Readable.from(part.content, { objectMode: false })))
    }
  } catch (error) {
    if (!(error instanceof MultipartError)) throw error
    throw invalidMessage(`the form cannot be parsed: ${error.message}`)
  }
  return done
}

function targetOf(path: string, { filename }: Part): string {
  const target = path || filename
  if (target === '') throw invalidMessage('a part has no filename, and the call has no path')
  return target
}

function metadataOf({ headers }: GuestRequest): { metadata?: Record<string, string> } {
  const found = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(METADATA) && name.length > METADATA.length
      ? [[name.slice(METADATA.length), (Array.isArray(value) ? value[0] : value) ?? '']]
      : [],
  )
  return found.length === 0 ? {} : { metadata: Object.fromEntries(found) }
}

function decodedBody(request: GuestRequest): Readable {
  const body = request.body ?? Readable.from([])
  const encoding = headerOf(request, 'content-encoding')
  if (encoding === '' || encoding === 'identity') return body
  if (encoding !== 'gzip') throw unknownEncoding(encoding, 415)
  return Readable.from(unzipped(body), { objectMode: false })
}

/** Decompresses gzip, with limits that make a decompression bomb harmless. */
async function* unzipped(body: Readable): AsyncGenerator<Buffer> {
  const gunzip = createGunzip()
  let [sizeIn, sizeOut] = [0, 0]
  body.on('data', (chunk: Buffer) => {
    sizeIn += chunk.length
  })
  pipeline(body, gunzip, () => undefined)
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      sizeOut += chunk.length
      if (sizeOut > MOST_BYTES) throw tooLarge(`more than ${MOST_BYTES} bytes come out`)
      if (sizeOut > FREE_BYTES && sizeOut / MOST_RATIO > sizeIn) {
        throw tooLarge(`more than ${MOST_RATIO} times as many bytes come out as go in`)
      }
      yield chunk
    }
  } catch (error) {
    throw error instanceof EnvdRefusal ? error : invalidMessage('the body is not valid gzip')
  }
}
