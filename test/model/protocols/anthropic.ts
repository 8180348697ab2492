import { type Answer, type Conversation, type Turn, USAGE } from '../conversation.ts'
import { at, joined, listAt, textAt } from '../json.ts'
import { bearer, inputText, type Protocol, propertiesOf, serverSentEvent, words } from './protocol.ts'

export const anthropic: Protocol = {
  name: 'anthropic',
  path: /\/v1\/messages$/,
  key: (headers) => headers['x-api-key']?.toString() ?? bearer(headers),
  badKey: { status: 401, message: 'invalid x-api-key' },
  read: (body): Conversation => ({
    model: textAt(body, 'model'),
    streams: at(body, 'stream') === true,
    system: joined(at(body, 'system')),
    tools: listAt(body, 'tools').map((tool) => ({
      name: textAt(tool, 'name'),
      kind: 'function',
      properties: propertiesOf(at(tool, 'input_schema')),
    })),
    history: listAt(body, 'messages').flatMap(turns),
    form: propertiesOf(at(body, 'output_config', 'format', 'schema') ?? at(body, 'output_format', 'schema')),
  }),
  stream: (answer) => [...begin(answer), ...said(answer), ...called(answer), ...end(answer)],
  whole: (answer) => ({
    ...message(answer),
    content: [
      ...(answer.text === '' ? [] : [{ type: 'text', text: answer.text }]),
      ...(answer.call
        ? [{ type: 'tool_use', id: `toolu_${answer.id}`, name: answer.call.tool, input: answer.call.input }]
        : []),
    ],
    stop_reason: stopReason(answer),
    usage: { ...counted(), output_tokens: USAGE.output },
  }),
  refusal: (status, message) => ({ type: 'error', error: { type: errorType(status), message } }),
}

function turns(message: unknown): Turn[] {
  const content = at(message, 'content')
  const parts: readonly unknown[] = Array.isArray(content) ? content : [{ type: 'text', text: content }]
  return parts.flatMap((part): Turn[] => {
    switch (textAt(part, 'type')) {
      case 'text':
        return [{ from: textAt(message, 'role') === 'user' ? 'user' : 'model', text: textAt(part, 'text') }]
      case 'tool_use':
        return [{ from: 'call', tool: textAt(part, 'name') }]
      case 'tool_result':
        return [{ from: 'tool', text: joined(at(part, 'content')) }]
      default:
        return []
    }
  })
}

function* begin(answer: Answer): Generator<string> {
  const start = {
    ...message(answer),
    content: [],
    stop_reason: null,
    usage: { ...counted(), output_tokens: 1 },
  }
  yield event({ type: 'message_start', message: start })
  yield event({ type: 'ping' })
}

function* said({ text }: Answer): Generator<string> {
  if (text === '') return
  yield event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } })
  for (const word of words(text))
    yield event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: word } })
  yield event({ type: 'content_block_stop', index: 0 })
}

function* called(answer: Answer): Generator<string> {
  if (!answer.call) return
  const index = answer.text === '' ? 0 : 1
  const block = { type: 'tool_use', id: `toolu_${answer.id}`, name: answer.call.tool, input: {} }
  yield event({ type: 'content_block_start', index, content_block: block })
  const delta = { type: 'input_json_delta', partial_json: inputText(answer) }
  yield event({ type: 'content_block_delta', index, delta })
  yield event({ type: 'content_block_stop', index })
}

function* end(answer: Answer): Generator<string> {
  const delta = { stop_reason: stopReason(answer), stop_sequence: null }
  yield event({ type: 'message_delta', delta, usage: { output_tokens: USAGE.output } })
  yield event({ type: 'message_stop' })
}

function message({ id, model }: Answer): Record<string, unknown> {
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model, stop_sequence: null }
}

function counted(): Record<string, number> {
  return {
    input_tokens: USAGE.input,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: USAGE.cached,
  }
}

function stopReason({ call }: Answer): string {
  return call ? 'tool_use' : 'end_turn'
}

function errorType(status: number): string {
  if (status === 401) return 'authentication_error'
  return status === 429 ? 'rate_limit_error' : 'api_error'
}

function event(data: { readonly type: string } & Record<string, unknown>): string {
  return serverSentEvent(data, data.type)
}
