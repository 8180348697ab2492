/** envd's file system service over a guest's files. */
import * as z from 'zod'
import type { FileCall, FileChange, FileEntry } from '../../core/guest-files.ts'
import { type EnvdCall, type EnvdHandler, fileCall, needPath } from './call.ts'
import { count, json, optional, readStream, readUnary, timeoutOf } from './message.ts'
import { answerStream } from './stream.ts'
import type { EnvdWatchers } from './watchers.ts'

const path = optional(z.string())
const flag = optional(z.boolean())
const pathMessage = z.object({ path, depth: optional(count.max(0xffffffff)) })
const watchMessage = z.object({ path, recursive: flag, includeEntry: flag })
const watcherMessage = z.object({ watcherId: optional(z.string()) })

export const FILE_CALLS: Readonly<Record<string, EnvdHandler>> = {
  'POST /filesystem.Filesystem/Stat': onPath(async ({ guest }, path, o) => ({
    entry: wordedEntry(await guest.files.stat(path, o)),
  })),
  'POST /filesystem.Filesystem/ListDir': onPath(async ({ guest }, path, o, depth) => {
    const entries = await guest.files.list(path, depth || 1, o)
    return entries.length === 0 ? {} : { entries: entries.map(wordedEntry) }
  }),
  'POST /filesystem.Filesystem/MakeDir': onPath(async ({ guest }, path, o) => ({
    entry: wordedEntry(await guest.files.makeDir(path, o)),
  })),
  'POST /filesystem.Filesystem/Remove': onPath(async ({ guest }, path, o) => {
    await guest.files.remove(path, o)
    return {}
  }),
  'POST /filesystem.Filesystem/Move': async (call) => {
    const message = await readUnary(call.request, z.object({ source: path, destination: path }))
    const [to, from] = [needPath(message.destination), needPath(message.source)]
    return json(200, { entry: wordedEntry(await call.guest.files.move(from, to, fileCall(call))) })
  },
  'POST /filesystem.Filesystem/WatchDir': async (call) => {
    const message = await readStream(call.request, watchMessage)
    return answerStream(call.request, call.signal, {
      keepalive: { keepalive: {} },
      timeoutMs: timeoutOf(call.request),
      open: (signal) => changes({ ...call, signal }, message),
    })
  },
}

function onPath(
  act: (call: EnvdCall, path: string, o: FileCall, depth: number) => Promise<object>,
): EnvdHandler {
  return async (call) => {
    const { path, depth = 0 } = await readUnary(call.request, pathMessage)
    return json(200, await act(call, needPath(path), fileCall(call), depth))
  }
}

async function* changes(call: EnvdCall, message: z.infer<typeof watchMessage>): AsyncGenerator<object> {
  const found = await watch(call, message)
  yield { start: {} }
  for await (const change of found) yield { filesystem: wordedChange(change) }
}

function watch(
  call: EnvdCall,
  { path, recursive, includeEntry }: z.infer<typeof watchMessage>,
): Promise<AsyncIterable<FileChange>> {
  const o = { ...fileCall(call), isRecursive: recursive, withEntries: includeEntry }
  return call.guest.files.watch(needPath(path), o)
}

/** Watches whose changes a client polls. */
export function watcherCalls(watchers: EnvdWatchers): Readonly<Record<string, EnvdHandler>> {
  return {
    'POST /filesystem.Filesystem/CreateWatcher': async (call) => {
      const message = await readUnary(call.request, watchMessage)
      const watcherId = await watchers.create((signal) => watch({ ...call, signal }, message))
      return json(200, { watcherId })
    },
    'POST /filesystem.Filesystem/GetWatcherEvents': async ({ request }) => {
      const { watcherId = '' } = await readUnary(request, watcherMessage)
      const events = watchers.take(watcherId).map(wordedChange)
      return json(200, events.length === 0 ? {} : { events })
    },
    'POST /filesystem.Filesystem/RemoveWatcher': async ({ request }) => {
      const { watcherId = '' } = await readUnary(request, watcherMessage)
      watchers.remove(watcherId)
      return json(200, {})
    },
  }
}

function wordedChange({ name, kind, entry }: FileChange): object {
  const type = `EVENT_TYPE_${kind.toUpperCase()}`
  return { ...(name && { name }), type, ...(entry && { entry: wordedEntry(entry) }) }
}

/** Zero values are left out, as in proto3 JSON. */
function wordedEntry(entry: FileEntry): object {
  const { name, path, type, sizeBytes, mode, permissions, owner, group, symlinkTarget, metadata } = entry
  return {
    ...(name && { name }),
    ...(type && { type: `FILE_TYPE_${type.toUpperCase()}` }),
    ...(path && { path }),
    ...(sizeBytes > 0 && { size: String(sizeBytes) }),
    ...(mode > 0 && { mode }),
    ...(permissions && { permissions }),
    ...(owner && { owner }),
    ...(group && { group }),
    modifiedTime: entry.modifiedAt,
    ...(symlinkTarget !== undefined && { symlinkTarget }),
    ...(metadata && { metadata }),
  }
}
