/** Tool calls of the Agent Client Protocol: the state of each running call, and the events it becomes. */

import type { RunEventBody, ToolKind } from '../../../core/run.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { type JsonObject, listAt, objectAt, stringAt, valueAt } from '../../../util/untrusted-json.ts'
import { clip, clipOutput, LONGEST_PATH, LONGEST_TITLE } from '../output/clip.ts'
import { amountAt } from '../output/json.ts'
import { lineCounts } from '../output/line-counts.ts'
import { workspacePath } from '../output/workspace-path.ts'

/** Plain JSON, because it is part of the driver's state. */
export interface ToolState {
  /** The agent's id of the call. */
  readonly id: string
  /** Our id, for events. */
  readonly name: string
  readonly kind: ToolKind
  readonly title: string
  readonly isStarted: boolean
  readonly isOver: boolean
  /** Whether it was denied. */
  readonly isRefused?: boolean | undefined
  readonly command?: string | undefined
  /** `server/tool`. */
  readonly mcp?: string | undefined
  readonly url?: string | undefined
  readonly paths: readonly string[]
  readonly edits: readonly Edit[]
  /** Output that arrived in pieces. */
  readonly output?: string | undefined
  /** The last output shown of a running command, if the agent repeats all output each time. */
  readonly shown?: string | undefined
  /** Whether its subject was too long to be stored: rules cannot decide about it then. */
  readonly isCut?: boolean | undefined
}

interface Edit {
  readonly path: string
  readonly added: number
  readonly removed: number
}

/** How an agent reports things that the protocol has no field for. */
export interface ToolCallOptions {
  /** `server/tool` if the call is to an MCP server. `servers` are the names of its servers. */
  mcpTool?(call: JsonObject, servers: readonly string[]): string | undefined
  /** Whether the title of an `execute` call is the command itself. */
  readonly titleIsCommand?: boolean | undefined
  /**
   * A command's output without the agent's own text around it, and the exit code if only that text has it.
   */
  ended?(output: string): { readonly output: string; readonly exitCode?: number | undefined }
}

const MOST_TOOLS = 64
const MOST_FILES = 100
/** Permissions need the whole command: a longer one is refused, not truncated. */
export const LONGEST_COMMAND = 64 * 1024
const LONGEST_KEPT = 4096
/** Output per message about a running command: enough for the last line on a screen. */
const LONGEST_LIVE = 500
const MOST_KEPT = 128 * 1024
const LONGEST_URL = 8192

const KINDS: Readonly<Record<string, ToolKind>> = {
  read: 'read',
  edit: 'edit',
  delete: 'delete',
  move: 'move',
  search: 'search',
  execute: 'execute',
  fetch: 'fetch',
  think: 'think',
  switch_mode: 'think',
}

/** Updates a call from a message. Fields that the message omits keep their values. */
export function mergeTool(
  before: ToolState | undefined,
  call: JsonObject,
  o: {
    readonly workspace: string
    readonly servers: readonly string[]
    readonly words: ToolCallOptions
    readonly name: string
  },
): ToolState {
  const input = objectAt(call, 'rawInput')
  const title = stringAt(call, 'title')?.trim()
  const mcp = o.words.mcpTool?.(call, o.servers) ?? before?.mcp
  const patched = patchedPaths(valueAt(call, 'rawInput'))
  const said = kindOf(stringAt(call, 'kind')) ?? before?.kind ?? 'other'
  const kind = mcp !== undefined ? 'mcp' : said === 'other' && patched.length > 0 ? 'edit' : said
  const isTitleCommand = o.words.titleIsCommand === true && kind === 'execute' && title !== ''
  const command = commandIn(input) ?? (isTitleCommand ? title : undefined) ?? before?.command
  const edits = editsIn(call, o.workspace)
  // Never fewer than before: a question may omit some of the paths.
  const paths = [...new Set([...(before?.paths ?? []), ...pathsIn(call, input, o.workspace)])]
  const delta = stringAt(call, '_meta', 'terminal_output_delta', 'data') ?? ''
  return {
    id: before?.id ?? stringAt(call, 'toolCallId') ?? '',
    name: before?.name ?? o.name,
    kind,
    title: clip(title || before?.title || 'a tool', LONGEST_TITLE),
    isStarted: before?.isStarted ?? false,
    isOver: before?.isOver ?? false,
    isRefused: before?.isRefused,
    command: command?.slice(0, LONGEST_COMMAND),
    mcp: mcp === undefined ? undefined : clip(mcp, LONGEST_TITLE),
    url: (stringAt(input, 'url') ?? before?.url)?.slice(0, LONGEST_URL),
    paths: paths.slice(0, MOST_FILES),
    edits: edits.length > 0 ? edits : (before?.edits ?? []),
    output: delta === '' ? before?.output : clipOutput(`${before?.output ?? ''}${delta}`),
    shown: before?.shown,
    isCut:
      before?.isCut ||
      (command ?? '').length > LONGEST_COMMAND ||
      paths.length > MOST_FILES ||
      paths.some((path) => path.length >= LONGEST_PATH) ||
      (command === undefined && (title ?? '').length > LONGEST_TITLE),
  }
}

function kindOf(kind: string | undefined): ToolKind | undefined {
  if (kind === undefined) return undefined
  return Object.hasOwn(KINDS, kind) ? KINDS[kind] : 'other'
}

/** A text, or a list of arguments without the shell in front. */
export function commandIn(input: JsonObject): string | undefined {
  const said = valueAt(input, 'command') ?? valueAt(input, 'cmd')
  const several = listAt(input, 'commands').filter((one) => typeof one === 'string')
  if (said === undefined && several.length > 0) return several.join('\n')
  if (typeof said === 'string') return said
  if (!Array.isArray(said) || said.length === 0) return undefined
  const words = said.slice(0, 4096).filter((word) => typeof word === 'string')
  const [program = '', flag = '', script, ...rest] = words
  if (
    /^(?:.*\/)?(?:ba|z|da)?sh$/.test(program) &&
    /^-l?c$/.test(flag) &&
    script !== undefined &&
    rest.length === 0
  )
    return script
  return words.map(shellWord).join(' ')
}

function editsIn(call: JsonObject, workspace: string): Edit[] {
  return listAt(call, 'content')
    .slice(0, MOST_FILES)
    .flatMap((one) => {
      const path = stringAt(one, 'path')
      if (stringAt(one, 'type') !== 'diff' || path === undefined) return []
      const counts = lineCounts(stringAt(one, 'oldText') ?? '', stringAt(one, 'newText') ?? '')
      return [{ path: workspacePath(path, workspace), ...counts }]
    })
}

function pathsIn(call: JsonObject, input: JsonObject, workspace: string): string[] {
  const named = [
    ...listAt(call, 'locations').map((one) => stringAt(one, 'path')),
    ...listAt(call, 'content').map((one) =>
      stringAt(one, 'type') === 'diff' ? stringAt(one, 'path') : undefined,
    ),
    ...['file_path', 'filePath', 'filepath', 'absolute_path', 'path', 'fileName', 'destination'].map((key) =>
      stringAt(input, key),
    ),
    ...patchedPaths(valueAt(call, 'rawInput')),
    // Codex names each file of a patch as a key.
    ...Object.keys(objectAt(input, 'changes')),
  ].slice(0, 16 * MOST_FILES)
  const paths = named.flatMap((path) =>
    path === undefined || path === '' ? [] : [workspacePath(path, workspace)],
  )
  return [...new Set(paths)]
}

/** Files that a patch in the format of Codex names. Other agents use that format too. */
function patchedPaths(input: unknown): string[] {
  const patch =
    typeof input === 'string' ? input : (stringAt(input, 'input') ?? stringAt(input, 'patch') ?? '')
  if (!patch.startsWith('*** Begin Patch')) return []
  return patch.split('\n').flatMap((line) => {
    const [, path] = /^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$/.exec(line) ?? []
    return path === undefined ? [] : [path.trim()]
  })
}

/** The raw output of a command; for other calls the text for display, if there is one. */
function outputIn(call: JsonObject, isCommand: boolean): string | undefined {
  const ways = isCommand ? [rawOutput, shownOutput] : [shownOutput, rawOutput]
  for (const way of ways) {
    const text = way(call)
    if (text !== undefined && text !== '') return text
  }
  return undefined
}

function rawOutput(call: JsonObject): string | undefined {
  const raw = valueAt(call, 'rawOutput')
  if (typeof raw === 'string') return raw
  if (Array.isArray(raw))
    return raw
      .slice(0, MOST_FILES)
      .flatMap((one) => stringAt(one, 'result') ?? [])
      .join('\n')
  for (const key of OUTPUTS) {
    const text = stringAt(raw, key)
    if (text) return text
  }
  return undefined
}

function shownOutput(call: JsonObject): string | undefined {
  const texts = listAt(call, 'content')
    .slice(0, MOST_FILES)
    .flatMap((one) => (stringAt(one, 'type') === 'content' ? (stringAt(one, 'content', 'text') ?? []) : []))
  return texts.length === 0 ? undefined : unfenced(texts.join('\n'))
}

/** Removes the Markdown fence around it. */
function unfenced(text: string): string {
  const end = text.indexOf('\n')
  const isFenced = text.startsWith('```') && text.trimEnd().endsWith('\n```') && end > 0
  return isFenced ? text.trimEnd().slice(end + 1, -4) : text
}

const OUTPUTS = ['output', 'formatted_output', 'aggregated_output', 'stdout', 'content', 'result', 'error']

function exitCodeIn(call: JsonObject): number | undefined {
  const raw = valueAt(call, 'rawOutput')
  const [shell] = listAt(raw, 'contents')
  const code =
    amountAt(raw, 'exitCode') ??
    amountAt(raw, 'exit_code') ??
    amountAt(raw, 'metadata', 'exit') ??
    amountAt(shell, 'exitCode') ??
    amountAt(call, '_meta', 'terminal_exit', 'exit_code')
  return code !== undefined && Number.isInteger(code) ? code : undefined
}

/** The events of a message about a call, and the call's new state. */
export function toolEvents(
  tool: ToolState,
  call: JsonObject,
  words: ToolCallOptions,
): { readonly tool: ToolState; readonly events: readonly RunEventBody[] } {
  if (tool.isOver) return { tool, events: [] }
  const status = stringAt(call, 'status')
  const isOver = status === 'completed' || status === 'failed'
  const said = { type: 'tool', tool: tool.name, kind: tool.kind, title: headline(tool) } as const
  const begins = !tool.isStarted && (isOver || isTold(tool, status))
  const events: RunEventBody[] = begins ? [{ ...said, status: 'started' }] : []
  if (!isOver) {
    const { printed, all } = printedBy(tool, call)
    if (printed !== '') events.push({ ...said, status: 'running', output: printed })
    return { tool: kept({ ...tool, isStarted: tool.isStarted || begins, ...all }), events }
  }
  const isDone = status === 'completed'
  const { exitCode, output } = endingOf(tool, call, words)
  const hasRun = tool.command !== undefined && (isDone || !tool.isRefused)
  if (tool.command !== undefined && hasRun)
    events.push({ type: 'command', command: clipOutput(tool.command), ...exitCode, ...output })
  if (isDone) events.push(...tool.edits.map((edit) => ({ type: 'edit' as const, ...edit })))
  // Output of a command or an edit is not reported twice.
  const hasMore = !hasRun && !(isDone && tool.edits.length > 0)
  events.push({ ...said, status: isDone ? 'done' : 'failed', ...(hasMore && output) })
  return { tool: forgotten(tool), events }
}

/** The new output of a command, which arrives as a piece or as all output repeated. */
function printedBy(
  { command, isStarted, shown }: ToolState,
  call: JsonObject,
): { readonly printed: string; readonly all?: { readonly shown: string } } {
  if (command === undefined || !isStarted) return { printed: '' }
  const piece = stringAt(call, '_meta', 'terminal_output_delta', 'data')
  if (piece !== undefined) return { printed: lastOf(piece) }
  const all = lastOf(outputIn(call, true) ?? '')
  return all === '' || all === shown ? { printed: '' } : { printed: all, all: { shown: all } }
}

function lastOf(text: string): string {
  return text.slice(-LONGEST_LIVE).toWellFormed()
}

function endingOf(
  tool: ToolState,
  call: JsonObject,
  words: ToolCallOptions,
): { readonly exitCode?: { readonly exitCode: number }; readonly output?: { readonly output: string } } {
  const text = outputIn(call, tool.command !== undefined) ?? tool.output
  const ended = text === undefined || tool.command === undefined ? undefined : words.ended?.(text)
  const code = exitCodeIn(call) ?? ended?.exitCode
  const output = ended?.output ?? text
  return {
    ...(code !== undefined && { exitCode: { exitCode: code } }),
    ...(output !== undefined && { output: { output: clipOutput(output) } }),
  }
}

/** Agents announce a call before its details are known; it is reported when they are known or it runs. */
function isTold({ kind, command, paths, mcp, url }: ToolState, status: string | undefined): boolean {
  if (status === 'in_progress' || command !== undefined || mcp !== undefined) return true
  return kind !== 'execute' && (paths.length > 0 || url !== undefined)
}

function headline({ command, kind, title }: ToolState): string {
  return command !== undefined && kind === 'execute' ? clip(command.trim(), LONGEST_TITLE) : title
}

/** A running call, small enough to be stored with every event. */
function kept(tool: ToolState): ToolState {
  return { ...tool, output: tool.output === undefined ? undefined : clipOutput(tool.output, LONGEST_KEPT) }
}

/** Of a finished call only the id is kept, to recognise late messages. */
function forgotten({ id, name, kind, title }: ToolState): ToolState {
  return { id, name, kind, title, isStarted: true, isOver: true, paths: [], edits: [] }
}

/** Events for calls that began and whose end was never reported. */
export function unfinishedToolEvents(tools: readonly ToolState[]): RunEventBody[] {
  return tools.flatMap((tool) =>
    tool.isStarted && !tool.isOver
      ? [{ type: 'tool', tool: tool.name, kind: tool.kind, title: headline(tool), status: 'failed' }]
      : [],
  )
}

/** Keeps only the newest calls, because the state is stored with every event. */
export function withTool(tools: readonly ToolState[], tool: ToolState): readonly ToolState[] {
  const others = tools.filter(({ id }) => id !== tool.id).slice(1 - MOST_TOOLS)
  let left = MOST_KEPT - sizeOf(tool)
  let from = others.length
  while (from > 0) {
    left -= sizeOf(others[from - 1])
    if (left < 0) break
    from--
  }
  return [...others.slice(from), tool]
}

function sizeOf(tool: ToolState | undefined): number {
  if (!tool) return 0
  const { title, command = '', output = '', shown = '', url = '', paths, edits } = tool
  const named = [...paths, ...edits.map(({ path }) => path)].reduce((sum, path) => sum + path.length, 0)
  return 200 + title.length + command.length + output.length + shown.length + url.length + named
}
