/**
 * Reads the number of tokens from a model's response as it passes: Anthropic Messages, OpenAI Responses and
 * Chat Completions, Gemini generateContent, and compatible APIs; as an event stream or as one document.
 *
 * SECURITY: the server may cooperate with the sandbox. Whatever the size and shape of the response, only a
 * few numbers and one name are kept, and nothing in it causes an error.
 */
import type { ModelUsage } from '../../core/network.ts'
import { toVisibleAscii } from '../../util/hidden-characters.ts'
import { type Field, JsonScan } from './json-scan.ts'

/** The format of the response. */
export type AnswerForm = 'events' | 'json'

/** Undefined if model APIs do not use this content type. */
export function formOf(contentType: string): AnswerForm | undefined {
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type === 'text/event-stream') return 'events'
  return type === 'application/json' || type.endsWith('+json') || type === 'application/x-ndjson'
    ? 'json'
    : undefined
}

const USAGE = new Map<string, Field>([
  ['input_tokens', 'input'],
  ['prompt_tokens', 'input'],
  ['output_tokens', 'output'],
  ['completion_tokens', 'output'],
  ['cache_read_input_tokens', 'read'],
  ['cache_creation_input_tokens', 'written'],
  ['input_tokens_details', new Map([['cached_tokens', 'cached']])],
  ['prompt_tokens_details', new Map([['cached_tokens', 'cached']])],
])
const METADATA = new Map<string, Field>([
  ['promptTokenCount', 'input'],
  ['toolUsePromptTokenCount', 'tools'],
  ['cachedContentTokenCount', 'cached'],
  ['candidatesTokenCount', 'output'],
  ['thoughtsTokenCount', 'thoughts'],
])
const ANSWER: readonly (readonly [string, Field])[] = [
  ['model', 'model'],
  ['modelVersion', 'model'],
  ['usage', USAGE],
  ['usageMetadata', METADATA],
]
/** Some events contain the response, or the part known so far, in a field. */
const DOCUMENT = new Map<string, Field>([
  ...ANSWER,
  ['message', new Map(ANSWER)],
  ['response', new Map(ANSWER)],
])

const MOST_TOKENS = 1e9
const LONGEST_MODEL = 128
const UNKNOWN = 'unknown'

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const DATA = Buffer.from('data:')
const BREAK = Buffer.from('\n')

export class UsageMeter {
  readonly #form: AnswerForm
  readonly #counts = new Map<string, number>()
  readonly #scan = new JsonScan(DOCUMENT, (field, value) => this.#take(field, value))
  #model: string | undefined
  /** How many bytes of `data:` the current line has matched; -1 if it is another field. */
  #column = 0
  #isAfterReturn = false

  constructor(form: AnswerForm) {
    this.#form = form
  }

  push(chunk: Buffer): void {
    if (this.#form === 'json') this.#scan.push(chunk)
    else this.#lines(chunk)
  }

  /** The usage reported so far, also of a response that was cut. Undefined if none was reported. */
  get usage(): ModelUsage | undefined {
    if (this.#counts.size === 0) return undefined
    const of = (name: string): number => this.#counts.get(name) ?? 0
    // Anthropic reports cache reads and writes in addition to the input; the others include them in the
    // input.
    const isSeparate = !this.#counts.has('cached')
    const cached = isSeparate ? of('read') : Math.min(of('cached'), of('input'))
    const input = isSeparate ? of('input') + of('written') : of('input') - cached
    return {
      model: this.#model ?? UNKNOWN,
      input: input + of('tools'),
      cached,
      output: of('output') + of('thoughts'),
    }
  }

  #take(field: string, value: string | number): void {
    if (field === 'model') {
      if (typeof value === 'string' && value !== '')
        this.#model ??= toVisibleAscii(value.slice(0, LONGEST_MODEL))
      return
    }
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > MOST_TOKENS) return
    // Repeated counts are running totals, which only grow.
    this.#counts.set(field, Math.max(value, this.#counts.get(field) ?? 0))
  }

  /** Reads the `data` fields of events. An empty line ends an event and its document. */
  #lines(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      const byte = chunk[at]
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) {
        if (byte === CARRIAGE_RETURN || !this.#isAfterReturn) this.#lineEnd()
        this.#isAfterReturn = byte === CARRIAGE_RETURN
        at++
        continue
      }
      this.#isAfterReturn = false
      if (this.#column >= 0 && this.#column < DATA.length) {
        this.#column = byte === DATA[this.#column] ? this.#column + 1 : -1
        at++
        continue
      }
      const end = lineEndIn(chunk, at)
      if (this.#column === DATA.length) this.#scan.push(chunk.subarray(at, end))
      at = end
    }
  }

  #lineEnd(): void {
    if (this.#column === 0) this.#scan.reset()
    else if (this.#column === DATA.length) this.#scan.push(BREAK)
    this.#column = 0
  }
}

function lineEndIn(chunk: Buffer, from: number): number {
  const feed = chunk.indexOf(LINE_FEED, from)
  const end = feed < 0 ? chunk.length : feed
  const back = chunk.subarray(from, end).indexOf(CARRIAGE_RETURN)
  return back < 0 ? end : from + back
}
