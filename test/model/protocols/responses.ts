import { type Answer, type Conversation, type Tool, type Turn, USAGE } from '../conversation.ts'
import { at, joined, listAt, textAt } from '../json.ts'
import { openaiError } from './chat.ts'
import { bearer, inputText, type Protocol, propertiesOf, serverSentEvent, words } from './protocol.ts'

export const responses: Protocol = {
  name: 'responses',
  path: /\/responses$/,
  key: bearer,
  badKey: { status: 401, message: 'Incorrect API key provided.' },
  read: (body): Conversation => {
    const input = at(body, 'input')
    const items: readonly unknown[] = Array.isArray(input) ? input : [{ role: 'user', content: input }]
    // Newer models of Codex are told about tools in an item of the conversation.
    const more = items.filter((item) => textAt(item, 'type') === 'additional_tools')
    return {
      model: textAt(body, 'model'),
      streams: at(body, 'stream') === true,
      system: textAt(body, 'instructions'),
      tools: [...listAt(body, 'tools'), ...more.flatMap((item) => listAt(item, 'tools'))]
        .flatMap(inNamespace)
        .map(toolOf),
      history: items.flatMap(turns),
      form: propertiesOf(at(body, 'text', 'format', 'schema')),
    }
  },
  stream: (answer) => {
    const items = itemsOf(answer)
    return [
      event('response.created', { response: { ...response(answer), status: 'in_progress', output: [] } }),
      ...items.flatMap((item, index) => [
        ...(item['type'] === 'message' ? said(answer, index) : called(item, index)),
      ]),
      event('response.completed', { response: { ...response(answer), output: items } }),
    ]
  },
  whole: (answer) => ({ ...response(answer), output: itemsOf(answer) }),
  refusal: openaiError,
}

type Item = Readonly<Record<string, unknown>>

function turns(item: unknown): Turn[] {
  switch (textAt(item, 'type')) {
    case '':
    case 'message': {
      const [role, text] = [textAt(item, 'role'), joined(at(item, 'content'))]
      if (role !== 'user' && role !== 'assistant') return []
      return [{ from: role === 'user' ? 'user' : 'model', text }]
    }
    case 'function_call':
    case 'custom_tool_call':
      return [{ from: 'call', tool: textAt(item, 'name') }]
    case 'function_call_output':
    case 'custom_tool_call_output':
      return [{ from: 'tool', text: joined(at(item, 'output')) }]
    default:
      return []
  }
}

function inNamespace(tool: unknown): readonly unknown[] {
  return textAt(tool, 'type') === 'namespace' ? listAt(tool, 'tools') : [tool]
}

function toolOf(tool: unknown): Tool {
  return {
    name: textAt(tool, 'name'),
    kind: textAt(tool, 'type') === 'custom' ? 'custom' : 'function',
    properties: propertiesOf(at(tool, 'parameters')),
  }
}

function itemsOf(answer: Answer): Item[] {
  const { id, text, call } = answer
  const items: Item[] = []
  if (text !== '') items.push({ ...message(answer), status: 'completed', content: [part(text)] })
  if (!call) return items
  const named = { id: `fc_${id}`, call_id: `call_${id}`, name: call.tool, status: 'completed' }
  if (typeof call.input === 'string') items.push({ ...named, type: 'custom_tool_call', input: call.input })
  else items.push({ ...named, type: 'function_call', arguments: inputText(answer) })
  return items
}

function* said(answer: Answer, index: number): Generator<string> {
  const { text, id } = answer
  const where = { item_id: `msg_${id}`, output_index: index, content_index: 0 }
  const item = { ...message(answer), status: 'in_progress', content: [] }
  yield event('response.output_item.added', { output_index: index, item })
  yield event('response.content_part.added', { ...where, part: part('') })
  for (const delta of words(text)) yield event('response.output_text.delta', { ...where, delta })
  yield event('response.output_text.done', { ...where, text })
  yield event('response.content_part.done', { ...where, part: part(text) })
  const done = { ...item, status: 'completed', content: [part(text)] }
  yield event('response.output_item.done', { output_index: index, item: done })
}

function* called(item: Item, index: number): Generator<string> {
  const custom = item['type'] === 'custom_tool_call'
  const empty = { ...item, status: 'in_progress', ...(custom ? { input: '' } : { arguments: '' }) }
  yield event('response.output_item.added', { output_index: index, item: empty })
  const where = { item_id: item['id'], output_index: index }
  const name = custom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta'
  yield event(name, { ...where, delta: item[custom ? 'input' : 'arguments'] })
  yield event('response.output_item.done', { output_index: index, item })
}

function message({ id }: Answer): Item {
  return { id: `msg_${id}`, type: 'message', role: 'assistant' }
}

function part(text: string): Item {
  return { type: 'output_text', text, annotations: [] }
}

function response({ id, model }: Answer): Item {
  const [input, { cached, output }] = [USAGE.input + USAGE.cached, USAGE]
  return {
    id: `resp_${id}`,
    object: 'response',
    status: 'completed',
    model,
    error: null,
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  }
}

function event(type: string, data: Item): string {
  return serverSentEvent({ type, ...data }, type)
}
