import { type Answer, type Conversation, type Turn, USAGE } from '../conversation.ts'
import { at, joined, listAt, textAt } from '../json.ts'
import { type Protocol, propertiesOf, serverSentEvent, words } from './protocol.ts'

const PATH = /\/v1(?:beta)?\/models\/([^/:]+):(generateContent|streamGenerateContent)$/

export const gemini: Protocol = {
  name: 'gemini',
  path: PATH,
  key: (headers, query) => headers['x-goog-api-key']?.toString() ?? query.get('key') ?? undefined,
  badKey: { status: 400, message: 'API key not valid. Please pass a valid API key.' },
  read: (body, path): Conversation => {
    const [, model = '', verb] = PATH.exec(path) ?? []
    const settings = at(body, 'generationConfig')
    return {
      model,
      streams: verb === 'streamGenerateContent',
      system: joined(at(body, 'systemInstruction', 'parts')),
      tools: listAt(body, 'tools')
        .flatMap((tool) => listAt(tool, 'functionDeclarations'))
        .map((tool) => ({
          name: textAt(tool, 'name'),
          kind: 'function',
          properties: propertiesOf(at(tool, 'parametersJsonSchema') ?? at(tool, 'parameters')),
        })),
      history: listAt(body, 'contents').flatMap(turns),
      form: propertiesOf(at(settings, 'responseJsonSchema') ?? at(settings, 'responseSchema')),
    }
  },
  stream: (answer) => [
    ...words(answer.text).map((text) => serverSentEvent(chunk(answer, [{ text }]))),
    serverSentEvent({ ...chunk(answer, callPart(answer), 'STOP'), usageMetadata: usage() }),
  ],
  whole: (answer) => ({
    ...chunk(answer, [...(answer.text === '' ? [] : [{ text: answer.text }]), ...callPart(answer)], 'STOP'),
    usageMetadata: usage(),
  }),
  refusal: (status, message) => ({ error: { code: status, message, status: statusWord(status) } }),
}

function turns(content: unknown): Turn[] {
  return listAt(content, 'parts').flatMap((part): Turn[] => {
    const call = at(part, 'functionCall')
    if (call !== undefined) return [{ from: 'call', tool: textAt(call, 'name') }]
    const result = at(part, 'functionResponse', 'response')
    if (result !== undefined) return [{ from: 'tool', text: resultText(result) }]
    const text = textAt(part, 'text')
    if (text === '' || at(part, 'thought') === true) return []
    return [{ from: textAt(content, 'role') === 'model' ? 'model' : 'user', text }]
  })
}

function resultText(response: unknown): string {
  return textAt(response, 'output') || textAt(response, 'error') || JSON.stringify(response)
}

function callPart({ id, call }: Answer): unknown[] {
  return call ? [{ functionCall: { id: `call_${id}`, name: call.tool, args: call.input } }] : []
}

function chunk(
  { id, model }: Answer,
  parts: readonly unknown[],
  finishReason?: string,
): Record<string, unknown> {
  const content = { role: 'model', parts: parts.length === 0 ? [{ text: '' }] : parts }
  return { responseId: id, modelVersion: model, candidates: [{ index: 0, content, finishReason }] }
}

function usage(): Record<string, number> {
  const prompt = USAGE.input + USAGE.cached
  return {
    promptTokenCount: prompt,
    cachedContentTokenCount: USAGE.cached,
    candidatesTokenCount: USAGE.output,
    totalTokenCount: prompt + USAGE.output,
  }
}

function statusWord(status: number): string {
  const words: Readonly<Record<number, string>> = {
    400: 'INVALID_ARGUMENT',
    401: 'UNAUTHENTICATED',
    429: 'RESOURCE_EXHAUSTED',
  }
  return words[status] ?? 'INTERNAL'
}
