/** Processes over podd's protocol. */
import type { GuestCall } from '../../core/call.ts'
import type {
  GuestCommand,
  GuestProcesses,
  OutputPlace,
  ProcessEvent,
  ProcessExit,
  ProcessInfo,
  ProcessRef,
} from '../../core/guest-process.ts'
import { malformedAnswer } from '../guest-error.ts'
import {
  bodyOf,
  jsonOf,
  lengthOf,
  type Send,
  sendRequest,
  streamCall,
  unaryCall,
  userHeader,
} from './exchange.ts'

const SERVICE = '/process.Process'

export function poddProcesses(send: Send): GuestProcesses {
  const call = async (name: string, message: object, { signal }: GuestCall): Promise<void> => {
    await unaryCall(send, { path: `${SERVICE}/${name}`, message }, signal)
  }
  return {
    start: (command, { signal }) => eventsOf(streamCall(send, startRequest(command), signal)),
    attach: (process, from, { signal }) => eventsOf(streamCall(send, attachRequest(process, from), signal)),
    list: (o) => list(send, o),
    write: (process, to, data, o) =>
      call('SendInput', { process, input: { [to]: data.toString('base64') } }, o),
    writeAt: (tag, offset, data, o) => writeAt(send, { tag, offset, data }, o),
    closeStdin: (process, o) => call('CloseStdin', { process }, o),
    signal: (process, name, o) => call('SendSignal', { process, signal: `SIGNAL_${name}` }, o),
    resize: (process, size, o) => call('Update', { process, pty: { size } }, o),
  }
}

function startRequest(command: GuestCommand): {
  path: string
  message: object
  headers: Record<string, string>
} {
  const { args, env, cwd, user, tag, pty, stdin, timeoutMs } = command
  return {
    path: `${SERVICE}/Start`,
    message: {
      process: { cmd: command.command, args, envs: env, ...(cwd && { cwd }) },
      ...(tag !== undefined && { tag }),
      ...(pty && { pty: { size: pty } }),
      stdin,
    },
    headers: {
      ...userHeader(user),
      ...(timeoutMs !== undefined && { 'connect-timeout-ms': String(timeoutMs) }),
    },
  }
}

function attachRequest(process: ProcessRef, from: OutputPlace): { path: string; message: object } {
  if (from === 'now') return { path: `${SERVICE}/Connect`, message: { process } }
  const place = 'stdout' in from ? { stdout: String(from.stdout) } : { offset: String(from.offset) }
  return { path: '/agentpod/attach', message: { process, ...place } }
}

async function* eventsOf(said: AsyncGenerator<Record<string, unknown>>): AsyncGenerator<ProcessEvent> {
  for await (const message of said) {
    const event = eventOf(fieldsOf(message['event'] ?? message))
    if (!event) continue
    yield event
    if (event.kind === 'end') return
  }
}

const KINDS = ['stdout', 'stderr', 'pty'] as const

function eventOf(event: Record<string, unknown>): ProcessEvent | undefined {
  const data = event['data']
  if (data) {
    for (const kind of KINDS) {
      const encoded = fieldsOf(data)[kind]
      if (typeof encoded === 'string') return { kind, data: Buffer.from(encoded, 'base64') }
    }
    return undefined
  }
  if (event['start']) return { kind: 'start', pid: Number(fieldsOf(event['start'])['pid'] ?? 0) }
  if (event['end']) return { kind: 'end', exit: exitOf(fieldsOf(event['end'])) }
  if (!event['gap']) return undefined
  const { from, to, stdout } = fieldsOf(event['gap'])
  return { kind: 'gap', from: countOf(from), to: countOf(to), stdout: countOf(stdout) }
}

/** Reads the end of a process from an `end` event or from a list of processes. */
function exitOf(end: Record<string, unknown>): ProcessExit {
  const { exitCode = 0, signal, oomKilled } = end
  if (!Number.isSafeInteger(exitCode)) throw malformedAnswer(new Error('an exit code is missing'))
  return {
    exitCode: Number(exitCode),
    signal: typeof signal === 'string' ? signal : undefined,
    oomKilled: oomKilled === true,
  }
}

async function list(
  send: Send,
  { tag, signal }: GuestCall & { readonly tag?: string | undefined },
): Promise<ProcessInfo[]> {
  const path = `/agentpod/processes${tag === undefined ? '' : `?${new URLSearchParams({ tag })}`}`
  const found = await jsonOf(await sendRequest(send, { method: 'GET', path, headers: {} }, signal), signal)
  if (!Array.isArray(found)) throw malformedAnswer(new Error('no list of processes'))
  return found.map((one) => infoOf(fieldsOf(one)))
}

function infoOf(one: Record<string, unknown>): ProcessInfo {
  const { tag, startedAt, endedAt } = one
  const { cmd, args, envs, cwd } = fieldsOf(one['config'] ?? {})
  return {
    pid: countOf(one['pid']),
    ...(typeof tag === 'string' && { tag }),
    command: String(cmd ?? ''),
    args: Array.isArray(args) ? args.map(String) : [],
    env: textsOf(envs),
    ...(typeof cwd === 'string' && { cwd }),
    startedAt: String(startedAt),
    ...(endedAt !== undefined && { ended: { at: String(endedAt), exit: exitOf(one) } }),
    outputBytes: countOf(one['outputBytes'] ?? 0),
    stdinBytes: countOf(one['stdinBytes']),
  }
}

async function writeAt(
  send: Send,
  { tag, offset, data }: { readonly tag: string; readonly offset: number; readonly data: Buffer },
  { signal }: GuestCall,
): Promise<number> {
  const path = `/agentpod/input?${new URLSearchParams({ tag, offset: String(offset) })}`
  const headers = { 'content-type': 'application/octet-stream', ...lengthOf(data) }
  const response = await sendRequest(send, { method: 'POST', path, headers, body: bodyOf(data) }, signal)
  return countOf(fieldsOf(await jsonOf(response, signal))['stdinBytes'])
}

export function fieldsOf(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  throw malformedAnswer(new Error('a message with fields is missing'))
}

export function textsOf(value: unknown): Record<string, string> {
  return Object.fromEntries(Object.entries(value ?? {}).map(([key, text]) => [key, String(text)]))
}

/** Byte counts are sent as text, like every 64-bit number in proto3 JSON. */
export function countOf(value: unknown): number {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  throw malformedAnswer(new Error('a number is missing'))
}
