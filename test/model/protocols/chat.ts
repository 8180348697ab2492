import { type Answer, type Conversation, type Turn, USAGE } from '../conversation.ts'
import { at, joined, listAt, textAt } from '../json.ts'
import { bearer, inputText, type Protocol, propertiesOf, serverSentEvent, words } from './protocol.ts'

/** Chat Completions, which many services speak. */
export const chat: Protocol = {
  name: 'chat',
  path: /\/chat\/completions$/,
  key: bearer,
  badKey: { status: 401, message: 'Incorrect API key provided.' },
  read: (body): Conversation => ({
    model: textAt(body, 'model'),
    streams: at(body, 'stream') === true,
    system: listAt(body, 'messages')
      .filter((message) => ['system', 'developer'].includes(textAt(message, 'role')))
      .map((message) => joined(at(message, 'content')))
      .join('\n'),
    tools: listAt(body, 'tools').map((tool) => ({
      name: textAt(tool, 'function', 'name') || textAt(tool, 'custom', 'name'),
      kind: at(tool, 'custom') === undefined ? 'function' : 'custom',
      properties: propertiesOf(at(tool, 'function', 'parameters')),
    })),
    history: listAt(body, 'messages').flatMap(turns),
    form: propertiesOf(at(body, 'response_format', 'json_schema', 'schema')),
  }),
  stream: (answer) => [
    chunk(answer, { role: 'assistant', content: '' }),
    ...words(answer.text).map((content) => chunk(answer, { content })),
    ...(answer.call ? [chunk(answer, { tool_calls: [{ index: 0, ...toolCall(answer) }] })] : []),
    chunk(answer, {}, finishReason(answer)),
    serverSentEvent({ ...head(answer, 'chat.completion.chunk'), choices: [], usage: usage() }),
    'data: [DONE]\n\n',
  ],
  whole: (answer) => {
    const calls = answer.call && { tool_calls: [toolCall(answer)] }
    const message = { role: 'assistant', content: answer.text, ...calls }
    return {
      ...head(answer, 'chat.completion'),
      choices: [{ index: 0, message, finish_reason: finishReason(answer) }],
      usage: usage(),
    }
  },
  refusal: openaiError,
}

export function openaiError(status: number, message: string): unknown {
  const codes: Readonly<Record<number, string>> = { 401: 'invalid_api_key', 429: 'rate_limit_exceeded' }
  const type = status === 429 ? 'rate_limit_error' : 'invalid_request_error'
  return { error: { message, type, param: null, code: codes[status] ?? null } }
}

function turns(message: unknown): Turn[] {
  const text = joined(at(message, 'content'))
  switch (textAt(message, 'role')) {
    case 'user':
      return [{ from: 'user', text }]
    case 'assistant':
      return [
        ...(text === '' ? [] : [{ from: 'model' as const, text }]),
        ...listAt(message, 'tool_calls').map((call) => ({
          from: 'call' as const,
          tool: textAt(call, 'function', 'name') || textAt(call, 'custom', 'name'),
        })),
      ]
    case 'tool':
      return [{ from: 'tool', text }]
    default:
      return []
  }
}

function toolCall(answer: Answer): Record<string, unknown> {
  if (typeof answer.call?.input === 'string') {
    const custom = { name: answer.call.tool, input: answer.call.input }
    return { id: `call_${answer.id}`, type: 'custom', custom }
  }
  const called = { name: answer.call?.tool, arguments: inputText(answer) }
  return { id: `call_${answer.id}`, type: 'function', function: called }
}

function chunk(answer: Answer, delta: Record<string, unknown>, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }]
  return serverSentEvent({ ...head(answer, 'chat.completion.chunk'), choices })
}

function head({ id, model }: Answer, object: string): Record<string, unknown> {
  return { id: `chatcmpl-${id}`, object, created: 1_700_000_000, model }
}

function finishReason({ call }: Answer): string {
  return call ? 'tool_calls' : 'stop'
}

function usage(): Record<string, unknown> {
  const [prompt, { cached, output }] = [USAGE.input + USAGE.cached, USAGE]
  return {
    prompt_tokens: prompt,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens: output,
    total_tokens: prompt + output,
  }
}
