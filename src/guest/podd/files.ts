/** Files and archives over podd's protocol. */
import type { Readable } from 'node:stream'
import type {
  ArchiveCall,
  FileCall,
  FileChange,
  FileContent,
  FileEntry,
  GuestArchive,
  GuestFiles,
  WatchOptions,
  WriteOptions,
} from '../../core/guest-files.ts'
import { malformedAnswer } from '../guest-error.ts'
import {
  jsonOf,
  type RequestHeaders,
  refusalFrom,
  type Send,
  sendRequest,
  streamCall,
  unaryCall,
  userHeader,
} from './exchange.ts'
import { countOf, fieldsOf, textsOf } from './processes.ts'

const SERVICE = '/filesystem.Filesystem'

export function poddFiles(send: Send): GuestFiles {
  const call = async (name: string, message: object, o: FileCall): Promise<Record<string, unknown>> =>
    fieldsOf(await unaryCall(send, { path: `${SERVICE}/${name}`, message, headers: actorOf(o) }, o.signal))
  return {
    stat: async (path, o) => entryOf((await call('Stat', { path }, o))['entry']),
    list: async (path, depth, o) => entriesOf((await call('ListDir', { path, depth }, o))['entries']),
    read: (path, o) => read(send, path, o),
    write: (path, content, o) => write(send, path, content, o),
    makeDir: async (path, o) => entryOf((await call('MakeDir', { path }, o))['entry']),
    move: async (source, destination, o) =>
      entryOf((await call('Move', { source, destination }, o))['entry']),
    remove: async (path, o) => void (await call('Remove', { path }, o)),
    watch: (path, o) => watch(send, path, o),
  }
}

function actorOf({ user, withSudo }: FileCall): RequestHeaders {
  return { ...userHeader(user), ...(withSudo && { 'agentpod-file-rules': 'e2b' }) }
}

async function read(send: Send, path: string, o: FileCall): Promise<FileContent> {
  const headers = { ...actorOf(o), 'accept-encoding': 'identity' }
  const asked = { method: 'GET', path: `/files?${new URLSearchParams({ path })}`, headers }
  const response = await sendRequest(send, asked, o.signal)
  if (response.status !== 200) throw await refusalFrom(response)
  const length = response.headers['content-length']
  const modifiedAt = new Date(String(response.headers['last-modified']))
  return {
    ...(length !== undefined && { sizeBytes: countOf(length) }),
    ...(!Number.isNaN(modifiedAt.getTime()) && { modifiedAt }),
    content: response.body,
  }
}

async function write(
  send: Send,
  path: string,
  content: Readable,
  o: FileCall & WriteOptions,
): Promise<string> {
  const metadata = Object.entries(o.metadata ?? {}).map(([key, value]) => [`x-metadata-${key}`, value])
  const headers = {
    'content-type': 'application/octet-stream',
    ...actorOf(o),
    ...Object.fromEntries(metadata),
  }
  const asked = { method: 'POST', path: `/files?${new URLSearchParams({ path })}`, headers, body: content }
  const done = await jsonOf(await sendRequest(send, asked, o.signal), o.signal)
  if (!Array.isArray(done)) throw malformedAnswer(new Error('no list of files'))
  return textOf(fieldsOf(done[0])['path'])
}

async function watch(
  send: Send,
  path: string,
  o: FileCall & WatchOptions,
): Promise<AsyncIterable<FileChange>> {
  const message = { path, recursive: o.isRecursive ?? false, includeEntry: o.withEntries ?? false }
  const said = streamCall(send, { path: `${SERVICE}/WatchDir`, message, headers: actorOf(o) }, o.signal)
  const first = await said.next()
  if (first.done || !first.value['start']) throw malformedAnswer(new Error('a watch did not start'))
  return changesOf(said)
}

async function* changesOf(said: AsyncGenerator<Record<string, unknown>>): AsyncGenerator<FileChange> {
  for await (const message of said) {
    if (!message['filesystem']) continue
    const { name, type, entry } = fieldsOf(message['filesystem'])
    const kind = CHANGES[String(type)]
    if (!kind) throw malformedAnswer(new Error('a change of no known kind'))
    yield { name: String(name ?? ''), kind, ...(entry !== undefined && { entry: entryOf(entry) }) }
  }
}

const CHANGES: Readonly<Record<string, FileChange['kind']>> = {
  EVENT_TYPE_CREATE: 'create',
  EVENT_TYPE_WRITE: 'write',
  EVENT_TYPE_REMOVE: 'remove',
  EVENT_TYPE_RENAME: 'rename',
  EVENT_TYPE_CHMOD: 'chmod',
}

function entriesOf(value: unknown): FileEntry[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) throw malformedAnswer(new Error('no list of entries'))
  return value.map(entryOf)
}

const TYPES: Readonly<Record<string, FileEntry['type']>> = {
  FILE_TYPE_FILE: 'file',
  FILE_TYPE_DIRECTORY: 'directory',
}

function entryOf(value: unknown): FileEntry {
  const one = fieldsOf(value)
  const type = TYPES[String(one['type'])]
  const { symlinkTarget, metadata } = one
  return {
    name: textOf(one['name'] ?? ''),
    path: textOf(one['path'] ?? ''),
    ...(type && { type }),
    sizeBytes: countOf(one['size'] ?? 0),
    mode: countOf(one['mode'] ?? 0),
    permissions: textOf(one['permissions'] ?? ''),
    owner: textOf(one['owner'] ?? ''),
    group: textOf(one['group'] ?? ''),
    modifiedAt: textOf(one['modifiedTime']),
    ...(symlinkTarget !== undefined && { symlinkTarget: textOf(symlinkTarget) }),
    ...(metadata !== undefined && { metadata: textsOf(metadata) }),
  }
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  throw malformedAnswer(new Error('a text is missing'))
}

export function poddArchive(send: Send): GuestArchive {
  const request = (method: string, path: string, { user }: ArchiveCall) => ({
    method,
    path: `/agentpod/tar?${new URLSearchParams({ path })}`,
    headers: userHeader(user),
  })
  return {
    async unpack(path, archive, o) {
      const asked = request('POST', path, o)
      const headers = {
        ...asked.headers,
        'content-type': 'application/x-tar',
        ...(o.isGzip && { 'content-encoding': 'gzip' }),
      }
      const response = await sendRequest(send, { ...asked, headers, body: archive }, o.signal)
      await jsonOf(response, o.signal)
    },
    async pack(path, o) {
      const response = await sendRequest(send, request('GET', path, o), o.signal)
      if (response.status !== 200) throw await refusalFrom(response)
      return response.body
    },
  }
}
