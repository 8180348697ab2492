/** Tool calls of the Agent Client Protocol: what is remembered of each while it is under way, and the events it becomes. */
import type { RunEventBody, ToolKind } from '../core/run.ts'
import { shellWord } from '../util/shell-word.ts'
import { clip, clipOutput, LONGEST_PATH, LONGEST_TITLE } from './clip.ts'
import { amountAt, at, type Json, listAt, objectAt, textAt } from './json.ts'
import { lineCounts } from './line-counts.ts'
import { workspacePath } from './workspace-path.ts'

/** Plain JSON, since it is part of the driver's state. */
export interface ToolState {
  /** The agent's own. */
  readonly id: string
  /** Ours, for events. */
  readonly name: string
  readonly kind: ToolKind
  readonly title: string
  readonly isStarted: boolean
  readonly isOver: boolean
  /** Whether somebody has said no to it. */
  readonly isRefused?: boolean | undefined
  readonly command?: string | undefined
  /** `server/tool`. */
  readonly mcp?: string | undefined
  readonly url?: string | undefined
  readonly paths: readonly string[]
  readonly edits: readonly Edit[]
  /** What came piece by piece. */
  readonly output?: string | undefined
  /** The last that was shown of a command that runs, where its agent tells all of it again. */
  readonly shown?: string | undefined
  /** Whether what it is about was too long to be kept: it cannot be judged then. */
  readonly isCut?: boolean | undefined
}

interface Edit {
  readonly path: string
  readonly added: number
  readonly removed: number
}

/** How one agent names things that the protocol has no field for. */
export interface ToolWords {
  /** `server/tool`, where the call is one of an MCP server. `servers`: the names of those it was given. */
  mcpTool?(call: Json, servers: readonly string[]): string | undefined
  /** Whether the title of an `execute` is the command itself, for want of another place. */
  readonly titleIsCommand?: boolean | undefined
  /** A command's output without what the agent put around it, and its exit code where only that says it. */
  ended?(output: string): { readonly output: string; readonly exitCode?: number | undefined }
}

const MOST_TOOLS = 64
const MOST_FILES = 100
/** Whole commands decide about permissions: what is longer than this is not cut but refused. */
export const LONGEST_COMMAND = 64 * 1024
const LONGEST_KEPT = 4096
/** Of one message about a command that runs: enough for a screen's last line. */
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

/** The call as it is after a message about it. Fields that a message leaves out keep their values. */
export function mergeTool(
  before: ToolState | undefined,
  call: Json,
  o: {
    readonly workspace: string
    readonly servers: readonly string[]
    readonly words: ToolWords
    readonly name: string
  },
): ToolState {
  const input = objectAt(call, 'rawInput')
  const title = textAt(call, 'title')?.trim()
  const mcp = o.words.mcpTool?.(call, o.servers) ?? before?.mcp
  const patched = patchedPaths(at(call, 'rawInput'))
  const said = kindOf(textAt(call, 'kind')) ?? before?.kind ?? 'other'
  const kind = mcp !== undefined ? 'mcp' : said === 'other' && patched.length > 0 ? 'edit' : said
  const isTitleCommand = o.words.titleIsCommand === true && kind === 'execute' && title !== ''
  const command = commandIn(input) ?? (isTitleCommand ? title : undefined) ?? before?.command
  const edits = editsIn(call, o.workspace)
  // Never fewer than were named before: a question need not name all that it is about.
  const paths = [...new Set([...(before?.paths ?? []), ...pathsIn(call, input, o.workspace)])]
  const delta = textAt(call, '_meta', 'terminal_output_delta', 'data') ?? ''
  return {
    id: before?.id ?? textAt(call, 'toolCallId') ?? '',
    name: before?.name ?? o.name,
    kind,
    title: clip(title || before?.title || 'a tool', LONGEST_TITLE),
    isStarted: before?.isStarted ?? false,
    isOver: before?.isOver ?? false,
    isRefused: before?.isRefused,
    command: command?.slice(0, LONGEST_COMMAND),
    mcp: mcp === undefined ? undefined : clip(mcp, LONGEST_TITLE),
    url: (textAt(input, 'url') ?? before?.url)?.slice(0, LONGEST_URL),
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

/** A text, or words, of which a shell's own are taken off. */
export function commandIn(input: Json): string | undefined {
  const said = at(input, 'command') ?? at(input, 'cmd')
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

function editsIn(call: Json, workspace: string): Edit[] {
  return listAt(call, 'content')
    .slice(0, MOST_FILES)
    .flatMap((one) => {
      const path = textAt(one, 'path')
      if (textAt(one, 'type') !== 'diff' || path === undefined) return []
      const counts = lineCounts(textAt(one, 'oldText') ?? '', textAt(one, 'newText') ?? '')
      return [{ path: workspacePath(path, workspace), ...counts }]
    })
}

function pathsIn(call: Json, input: Json, workspace: string): string[] {
  const named = [
    ...listAt(call, 'locations').map((one) => textAt(one, 'path')),
    ...listAt(call, 'content').map((one) =>
      textAt(one, 'type') === 'diff' ? textAt(one, 'path') : undefined,
    ),
    ...['file_path', 'filePath', 'filepath', 'absolute_path', 'path', 'fileName', 'destination'].map((key) =>
      textAt(input, key),
    ),
    ...patchedPaths(at(call, 'rawInput')),
    // Codex names each file of a patch as a key.
    ...Object.keys(objectAt(input, 'changes')),
  ].slice(0, 16 * MOST_FILES)
  const paths = named.flatMap((path) =>
    path === undefined || path === '' ? [] : [workspacePath(path, workspace)],
  )
  return [...new Set(paths)]
}

/** Files that a patch in the manner of Codex names, which others have taken over. */
function patchedPaths(input: unknown): string[] {
  const patch = typeof input === 'string' ? input : (textAt(input, 'input') ?? textAt(input, 'patch') ?? '')
  if (!patch.startsWith('*** Begin Patch')) return []
  return patch.split('\n').flatMap((line) => {
    const [, path] = /^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$/.exec(line) ?? []
    return path === undefined ? [] : [path.trim()]
  })
}

/** Of a command what it wrote, as it wrote it; of others the text that is made for showing, where there is one. */
function outputIn(call: Json, isCommand: boolean): string | undefined {
  const ways = isCommand ? [rawOutput, shownOutput] : [shownOutput, rawOutput]
  for (const way of ways) {
    const text = way(call)
    if (text !== undefined && text !== '') return text
  }
  return undefined
}

function rawOutput(call: Json): string | undefined {
  const raw = at(call, 'rawOutput')
  if (typeof raw === 'string') return raw
  if (Array.isArray(raw))
    return raw
      .slice(0, MOST_FILES)
      .flatMap((one) => textAt(one, 'result') ?? [])
      .join('\n')
  for (const key of OUTPUTS) {
    const text = textAt(raw, key)
    if (text) return text
  }
  return undefined
}

function shownOutput(call: Json): string | undefined {
  const texts = listAt(call, 'content')
    .slice(0, MOST_FILES)
    .flatMap((one) => (textAt(one, 'type') === 'content' ? (textAt(one, 'content', 'text') ?? []) : []))
  return texts.length === 0 ? undefined : unfenced(texts.join('\n'))
}

/** Without the fence that Markdown wants around it. */
function unfenced(text: string): string {
  const end = text.indexOf('\n')
  const isFenced = text.startsWith('```') && text.trimEnd().endsWith('\n```') && end > 0
  return isFenced ? text.trimEnd().slice(end + 1, -4) : text
}

const OUTPUTS = ['output', 'formatted_output', 'aggregated_output', 'stdout', 'content', 'result', 'error']

function exitCodeIn(call: Json): number | undefined {
  const raw = at(call, 'rawOutput')
  const [shell] = listAt(raw, 'contents')
  const code =
    amountAt(raw, 'exitCode') ??
    amountAt(raw, 'exit_code') ??
    amountAt(raw, 'metadata', 'exit') ??
    amountAt(shell, 'exitCode') ??
    amountAt(call, '_meta', 'terminal_exit', 'exit_code')
  return code !== undefined && Number.isInteger(code) ? code : undefined
}

/** What a message about a call tells, and the call as it is remembered after it. */
export function toolEvents(
  tool: ToolState,
  call: Json,
  words: ToolWords,
): { readonly tool: ToolState; readonly events: readonly RunEventBody[] } {
  if (tool.isOver) return { tool, events: [] }
  const status = textAt(call, 'status')
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
  // What a command or an edit has told is not told again.
  const hasMore = !hasRun && !(isDone && tool.edits.length > 0)
  events.push({ ...said, status: isDone ? 'done' : 'failed', ...(hasMore && output) })
  return { tool: forgotten(tool), events }
}

/** The last of what a command has printed since the message before, by a piece or by all of it again. */
function printedBy(
  { command, isStarted, shown }: ToolState,
  call: Json,
): { readonly printed: string; readonly all?: { readonly shown: string } } {
  if (command === undefined || !isStarted) return { printed: '' }
  const piece = textAt(call, '_meta', 'terminal_output_delta', 'data')
  if (piece !== undefined) return { printed: lastOf(piece) }
  const all = lastOf(outputIn(call, true) ?? '')
  return all === '' || all === shown ? { printed: '' } : { printed: all, all: { shown: all } }
}

function lastOf(text: string): string {
  return text.slice(-LONGEST_LIVE).toWellFormed()
}

function endingOf(
  tool: ToolState,
  call: Json,
  words: ToolWords,
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

/** Agents announce a call before they know what it will be; it is told when that is known, or it is under way. */
function isTold({ kind, command, paths, mcp, url }: ToolState, status: string | undefined): boolean {
  if (status === 'in_progress' || command !== undefined || mcp !== undefined) return true
  return kind !== 'execute' && (paths.length > 0 || url !== undefined)
}

function headline({ command, kind, title }: ToolState): string {
  return command !== undefined && kind === 'execute' ? clip(command.trim(), LONGEST_TITLE) : title
}

/** A call under way, small enough to be stored with every event. */
function kept(tool: ToolState): ToolState {
  return { ...tool, output: tool.output === undefined ? undefined : clipOutput(tool.output, LONGEST_KEPT) }
}

/** Of a call that is over only its name is kept, so that stragglers are known as such. */
function forgotten({ id, name, kind, title }: ToolState): ToolState {
  return { id, name, kind, title, isStarted: true, isOver: true, paths: [], edits: [] }
}

/** Calls that were begun and of whose end nothing was told. */
export function openEvents(tools: readonly ToolState[]): RunEventBody[] {
  return tools.flatMap((tool) =>
    tool.isStarted && !tool.isOver
      ? [{ type: 'tool', tool: tool.name, kind: tool.kind, title: headline(tool), status: 'failed' }]
      : [],
  )
}

/** The newest, as many as are worth keeping: the state is stored with every event. */
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
