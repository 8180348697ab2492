/**
 * Calls tools of MCP servers, one after the other: `[[mcp remember surroundings]]`. An agent's name of such a
 * tool ends in the server's own name of it.
 */
import type { Tool, ToolCall, Turn } from '../conversation.ts'
import { TITLE } from '../deed.ts'
import type { Scenario } from './scenario.ts'

/** The text for tools that take one. */
export const MCP_TEXT = 'The sum is wrong.'

/**
 * Some agents offer such tools only after a search for them, and then offer them directly or through another
 * tool.
 */
const SEARCH = /^tool_?search$/i
const BRIDGE = /^tool_?call$/i

export const mcp: Scenario = ({ conversation: { tools, history }, words, results }) => {
  const calls = callsIn(history)
  // The calls since this prompt.
  const done = calls.slice(calls.length - results.length)
  const answers = done.filter(({ tool }) => !SEARCH.test(tool)).map(({ answer }) => answer)
  const found = done.filter(({ tool }) => SEARCH.test(tool)).map(({ answer }) => answer)
  const wanted = words[answers.length]
  if (wanted === undefined) return { kind: 'text', text: ['They answered:', ...answers].join('\n\n') }
  if (tools.length === 0) return { kind: 'text', text: TITLE }
  const call = callOf(wanted, tools, found[answers.length])
  return call
    ? { kind: 'call', text: `I call ${wanted}.`, call }
    : { kind: 'text', text: `I have no tool ${wanted}.` }
}

interface Call {
  readonly tool: string
  readonly answer: string
}

function callsIn(history: readonly Turn[]): Call[] {
  const called = history.flatMap((turn) => (turn.from === 'call' ? [turn.tool] : []))
  const told = history.flatMap((turn) => (turn.from === 'tool' ? [turn.text] : []))
  return told.map((answer, index) => ({ tool: called[index] ?? '', answer }))
}

/** `found` is the result of a search for the tool. */
function callOf(wanted: string, tools: readonly Tool[], found: string | undefined): ToolCall | undefined {
  const tool = tools.find(({ name }) => name.endsWith(wanted))
  if (tool) return { tool: tool.name, input: inputFor(tool) }
  const script = tools.find(({ name, kind }) => name === 'exec' && kind === 'custom')
  if (script) return { tool: script.name, input: scriptFor(wanted) }
  const search = tools.find(({ name }) => SEARCH.test(name))
  if (search && found === undefined) return { tool: search.name, input: { query: wanted } }
  const bridge = tools.find(({ name }) => BRIDGE.test(name))
  const [name] = new RegExp(`[\\w.-]+${wanted}\\b`).exec(found ?? '') ?? []
  return bridge && name !== undefined
    ? { tool: bridge.name, input: { name, arguments: { text: MCP_TEXT } } }
    : undefined
}

function inputFor({ properties }: Tool): Record<string, string> {
  const texts = properties.filter(({ type }) => type === 'string')
  return Object.fromEntries(texts.map(({ name }) => [name, MCP_TEXT]))
}

/**
 * For Codex with its newest models, which write a program in which tools are functions. Such a program can
 * call several at once: `remember+surroundings`.
 */
function scriptFor(wanted: string): string {
  return [
    `const ends = ${JSON.stringify(wanted.split('+'))}`,
    'const called = ends.map((end) => ALL_TOOLS.find(({ name }) => name.endsWith(end)))',
    `const input = ${JSON.stringify({ text: MCP_TEXT })}`,
    'const answers = await Promise.allSettled(called.map((tool) => tools[tool.name](input)))',
    'for (const { value, reason } of answers) text(value ?? String(reason))',
    '',
  ].join('\n')
}
