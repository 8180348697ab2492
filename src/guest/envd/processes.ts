/** envd's process service and podd's additions, over a guest's processes. */
import { constants } from 'node:os'
import * as z from 'zod'
import type { GuestResponse } from '../../core/guest.ts'
import type { ProcessEvent, ProcessInfo, ProcessRef } from '../../core/guest-process.ts'
import { type EnvdCall, type EnvdHandler, userOf } from './call.ts'
import { endOf } from './exit.ts'
import {
  bytes,
  count,
  EnvdRefusal,
  int64,
  invalidMessage,
  json,
  lateAfter,
  optional,
  readBody,
  readMessages,
  readStream,
  readUnary,
  streamed,
  timeoutOf,
} from './message.ts'
import { answerStream } from './stream.ts'

const LONGEST_TAG = 256

const size = z.object({ cols: count.max(0xffff).default(0), rows: count.max(0xffff).default(0) })
const pty = optional(z.object({ size: optional(size) }))
const process = optional(z.object({ pid: optional(count), tag: optional(z.string()) })).transform(refOf)
const selected = z.object({ process })
const input = z.object({ stdin: optional(bytes), pty: optional(bytes) })
const given = z.object({ process, input: optional(input) })

const startMessage = z.object({
  process: optional(
    z.object({
      cmd: optional(z.string()),
      args: optional(z.array(z.string())),
      envs: optional(z.record(z.string(), z.string())),
      cwd: optional(z.string()),
    }),
  ),
  pty,
  tag: optional(z.string()),
  stdin: optional(z.boolean()),
})

export const PROCESS_CALLS: Readonly<Record<string, EnvdHandler>> = {
  'POST /process.Process/Start': start,
  'POST /process.Process/Connect': async (call) => {
    const message = await readStream(call.request, selected)
    return follow(call, (signal) => call.guest.processes.attach(message.process, 'now', { signal }))
  },
  'POST /process.Process/List': async (call) => {
    await readUnary(call.request, z.object({}))
    const all = await call.guest.processes.list(call)
    const alive = all.filter(({ ended }) => ended === undefined)
    return json(200, alive.length === 0 ? {} : { processes: alive.map(configOf) })
  },
  'POST /process.Process/SendInput': sendInput,
  'POST /process.Process/StreamInput': streamInput,
  'POST /process.Process/CloseStdin': async (call) => {
    const message = await readUnary(call.request, selected)
    await call.guest.processes.closeStdin(message.process, call)
    return json(200, {})
  },
  'POST /process.Process/SendSignal': async (call) => {
    const schema = selected.extend({ signal: optional(z.union([z.string(), z.number()])) })
    const message = await readUnary(call.request, schema)
    await call.guest.processes.signal(message.process, signalOf(message.signal), call)
    return json(200, {})
  },
  'POST /process.Process/Update': async (call) => {
    const message = await readUnary(call.request, selected.extend({ pty }))
    const size = message.pty?.size ?? { cols: 0, rows: 0 }
    if (message.pty) await call.guest.processes.resize(message.process, size, call)
    return json(200, {})
  },
  'POST /agentpod/attach': attach,
  'POST /agentpod/input': writeAt,
  'GET /agentpod/processes': async (call) => {
    const { guest, query, signal } = call
    const tag = query.get('tag') || undefined
    return json(200, (await guest.processes.list({ tag, signal })).map(infoOf))
  },
}

function refOf(selector: { pid?: number | undefined; tag?: string | undefined } | undefined): ProcessRef {
  return selector?.tag ? { tag: selector.tag } : { pid: selector?.pid ?? 0 }
}

async function start(call: EnvdCall): Promise<GuestResponse> {
  const { request, guest } = call
  const timeoutMs = timeoutOf(request)
  const message = await readStream(request, startMessage)
  const open = (signal: AbortSignal): AsyncIterable<ProcessEvent> => {
    if (!message.process) throw invalidMessage('process is missing')
    const { cmd = '', args = [], envs = {}, cwd } = message.process
    const tag = message.tag || undefined
    if (tag && Buffer.byteLength(tag) > LONGEST_TAG) {
      throw invalidMessage(`the tag is longer than ${LONGEST_TAG} bytes`)
    }
    const terminal = message.pty && { pty: message.pty.size ?? { cols: 0, rows: 0 } }
    // The first clients of envd have no such field and expect stdin to be open.
    const command = { command: cmd, args, env: envs, cwd, tag, stdin: message.stdin ?? true, ...terminal }
    return guest.processes.start({ ...command, user: userOf(call), timeoutMs }, { signal })
  }
  return follow(call, open, false)
}

async function attach(call: EnvdCall): Promise<GuestResponse> {
  const schema = selected.extend({ offset: optional(int64), stdout: optional(int64) })
  const { process, offset = 0, stdout } = await readStream(call.request, schema)
  const place = stdout === undefined ? { offset } : { stdout }
  return follow(call, (signal) => {
    if ((stdout ?? offset) < 0) throw invalidMessage(`${stdout ?? offset} is not a position in the output`)
    return call.guest.processes.attach(process, place, { signal })
  })
}

/** Answers with the events of a process. The timeout of Start is the command's; the guest enforces it. */
function follow(
  call: EnvdCall,
  open: (signal: AbortSignal) => AsyncIterable<ProcessEvent>,
  isTimed = true,
): Promise<GuestResponse> {
  return answerStream(call.request, call.signal, {
    keepalive: { event: { keepalive: {} } },
    timeoutMs: isTimed ? timeoutOf(call.request) : undefined,
    open: (signal) => worded(() => open(signal)),
  })
}

async function* worded(open: () => AsyncIterable<ProcessEvent>): AsyncGenerator<object> {
  for await (const event of open()) yield { event: wordedEvent(event) }
}

function wordedEvent(event: ProcessEvent): object {
  switch (event.kind) {
    case 'start':
      return { start: { pid: event.pid } }
    case 'gap':
      return { gap: { from: String(event.from), to: String(event.to), stdout: String(event.stdout) } }
    case 'end':
      return { end: endOf(event.exit) }
    default:
      return { data: { [event.kind]: event.data.toString('base64') } }
  }
}

/** Waits while the process does not read, up to the client's timeout. */
async function sendInput(call: EnvdCall): Promise<GuestResponse> {
  const message = await readUnary(call.request, given)
  const late = lateAfter(timeoutOf(call.request))
  try {
    await give(late ? { ...call, signal: AbortSignal.any([call.signal, late]) } : call, message)
  } catch (error) {
    if (!late?.aborted || call.signal.aborted) throw error
    throw new EnvdRefusal('canceled', 'the process did not read its input')
  }
  return json(200, {})
}

async function give(
  { guest, signal }: EnvdCall,
  { process, input }: z.infer<typeof given>,
  to: ProcessRef = process,
): Promise<void> {
  if (input?.pty) await guest.processes.write(to, 'pty', input.pty, { signal })
  else if (input?.stdin) await guest.processes.write(to, 'stdin', input.stdin, { signal })
  else throw invalidMessage('input contains neither stdin nor pty')
}

/** Input in any number of messages; the first one names the process. */
async function streamInput(call: EnvdCall): Promise<GuestResponse> {
  const schema = z.object({ start: optional(selected), data: optional(given) })
  let to: ProcessRef | undefined
  for await (const { start, data } of readMessages(call.request, schema)) {
    if (start) to = start.process
    else if (data && !to) throw invalidMessage('data must come after start')
    else if (data) await give(call, data, to)
  }
  return streamed([{}])
}

async function writeAt({ request, query, guest, signal }: EnvdCall): Promise<GuestResponse> {
  const text = query.get('offset') ?? ''
  const tag = query.get('tag') ?? ''
  if (!/^\d{1,15}$/.test(text)) {
    throw invalidMessage(`offset ${JSON.stringify(text.slice(0, 40))} is not a number of bytes`)
  }
  if (tag === '') throw invalidMessage('the tag is missing')
  const data = await readBody(request, 'the input')
  const stdinBytes = await guest.processes.writeAt(tag, Number(text), data, { signal })
  return json(200, { stdinBytes: String(stdinBytes) })
}

/** A proto3 enum: a name, or a number, which in envd's enum is the number of the signal. */
function signalOf(value: string | number | undefined): string {
  const names = Object.entries(constants.signals)
  const said = typeof value === 'string' ? value.replace(/^SIGNAL_/, '') : value
  const found = names.find(([name, number]) => said === name || said === number)
  if (found) return found[0]
  throw invalidMessage(`${String(value).slice(0, 40)} is not a signal`)
}

function configOf({ command, args, env, cwd, pid, tag }: ProcessInfo): object {
  const config = {
    cmd: command,
    ...(args.length > 0 && { args }),
    ...(Object.keys(env).length > 0 && { envs: env }),
    ...(cwd && { cwd }),
  }
  return { config, pid, ...(tag && { tag }) }
}

function infoOf(info: ProcessInfo): object {
  const { startedAt, ended, outputBytes, stdinBytes } = info
  return {
    ...configOf(info),
    startedAt,
    ...(ended && {
      endedAt: ended.at,
      exitCode: ended.exit.exitCode,
      ...(ended.exit.signal && { signal: ended.exit.signal }),
      ...(ended.exit.oomKilled && { oomKilled: true }),
    }),
    outputBytes: String(outputBytes),
    stdinBytes: String(stdinBytes),
  }
}
