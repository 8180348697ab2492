/**
 * An action of a scenario, and the call of the agent's tool that does it: every agent names its own tools.
 */
import type { Property, Step, Tool, ToolCall } from './conversation.ts'

export type Deed =
  /** `permission`: the call itself asks for permission, if the tool supports it. */
  | { readonly do: 'run'; readonly command: string; readonly permission?: 'require_escalated' }
  | { readonly do: 'read'; readonly path: string }
  | { readonly do: 'write'; readonly path: string; readonly content: string }
  | { readonly do: 'replace'; readonly path: string; readonly from: string; readonly to: string }

export const TITLE = 'A task for an agent'

const NAMES: Readonly<Record<Deed['do'], readonly string[]>> = {
  run: [
    'bash',
    'run_commands',
    'exec_command',
    'run_shell_command',
    'shell',
    'shell_command',
    'execute_command',
    'execute',
  ],
  read: ['read', 'read_file', 'view', 'str_replace_based_edit_tool'],
  write: ['write', 'write_file', 'create', 'create_file', 'write_to_file'],
  replace: ['edit', 'replace', 'str_replace', 'edit_file'],
}

/** The meaning of a property, by the names that agents use for it. */
const MEANINGS: Readonly<Record<string, readonly string[]>> = {
  command: ['command', 'cmd', 'commands'],
  path: ['file_path', 'filepath', 'path', 'absolute_path', 'filename'],
  content: ['content', 'file_text', 'contents', 'text'],
  from: ['old_string', 'oldstring', 'old_str'],
  to: ['new_string', 'newstring', 'new_str'],
  why: ['description', 'instruction', 'explanation', 'reason'],
  /** Codex asks only about commands that declare that they need to leave its own sandbox. */
  permission: ['sandbox_permissions'],
  question: ['justification'],
  /** Codex returns before a command has ended unless it is told to wait. */
  wait: ['yield_time_ms'],
}

export function stepFor(deed: Deed, text: string, tools: readonly Tool[], directory: string): Step {
  const call = callFor(deed, text, tools, directory)
  // Requests without tools are for the titles of conversations.
  return call ? { kind: 'call', text, call } : { kind: 'text', text: TITLE }
}

function callFor(deed: Deed, why: string, tools: readonly Tool[], directory: string): ToolCall | undefined {
  const tool = named(tools, NAMES[deed.do])
  if (tool) return { tool: tool.name, input: inputFor(tool, deed, why, directory) }
  const patch = named(tools, ['apply_patch'])
  const patchText = patchFor(deed)
  if (patch && patchText !== undefined)
    return { tool: patch.name, input: patch.kind === 'custom' ? patchText : { input: patchText } }
  const script = tools.find(({ name, kind }) => name === 'exec' && kind === 'custom')
  if (script && patchText !== undefined)
    return { tool: script.name, input: scriptFor('apply_patch', patchText) }
  if (deed.do !== 'run') return callFor({ do: 'run', command: commandFor(deed) }, why, tools, directory)
  const { command: cmd, permission } = deed
  const escalated = permission && { sandbox_permissions: permission, justification: why }
  return (
    script && {
      tool: script.name,
      input: scriptFor('exec_command', { cmd, ...escalated, yield_time_ms: 30_000 }),
    }
  )
}

function named(tools: readonly Tool[], names: readonly string[]): Tool | undefined {
  return names.map((name) => tools.find((tool) => tool.name.toLowerCase() === name)).find((tool) => tool)
}

function inputFor(tool: Tool, deed: Deed, why: string, directory: string): Record<string, unknown> {
  const { do: _, ...wanted } = deed
  const path = 'path' in deed && { path: absolute(deed.path, directory) }
  const question = 'permission' in deed && { question: why }
  const values: Record<string, unknown> = { ...wanted, ...path, ...question, why, wait: 30_000 }
  const input: Record<string, unknown> = {}
  for (const property of tool.properties) {
    const meaning = meaningOf(property)
    const value = meaning === undefined ? undefined : values[meaning]
    if (property.name === 'edits' && deed.do === 'replace')
      input[property.name] = [{ oldText: deed.from, newText: deed.to }]
    else if (value !== undefined) input[property.name] = shaped(property, value)
    else if (property.required) input[property.name] = filler(property, why)
  }
  return input
}

function meaningOf({ name }: Property): string | undefined {
  const known = Object.entries(MEANINGS).find(([, names]) => names.includes(name.toLowerCase()))
  return known?.[0]
}

/** Some tools take a command as a list of words, some take several commands. */
function shaped({ type, name }: Property, value: unknown): unknown {
  if (name === 'commands') return [value]
  return type === 'array' ? ['bash', '-lc', value] : value
}

export function filler({ type }: Property, why: string): unknown {
  if (type === 'boolean') return false
  if (type === 'number' || type === 'integer') return 1
  if (type === 'array') return []
  return type === 'string' ? why : null
}

function absolute(path: string, directory: string): string {
  return path.startsWith('/') || directory === '' ? path : `${directory}/${path}`
}

function patchFor(deed: Deed): string | undefined {
  const around = (lines: readonly string[]): string =>
    ['*** Begin Patch', ...lines, '*** End Patch', ''].join('\n')
  if (deed.do === 'write') {
    const added = deed.content.replace(/\n$/, '').split('\n')
    return around([`*** Add File: ${deed.path}`, ...added.map((line) => `+${line}`)])
  }
  return undefined
}

/** The same with a shell command, for agents that have only a shell. */
function commandFor(deed: Exclude<Deed, { do: 'run' }>): string {
  if (deed.do === 'read') return `cat ${deed.path}`
  if (deed.do === 'write') return `cat > ${deed.path} <<'END'\n${deed.content.replace(/\n$/, '')}\nEND`
  return `sed -i 's/${deed.from}/${deed.to}/' ${deed.path}`
}

/** For Codex with its newest models, which write a program in which tools are functions. */
function scriptFor(tool: string, input: unknown): string {
  return `text(await tools.${tool}(${JSON.stringify(input)}))\n`
}
