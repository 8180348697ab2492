/**
 * Reads out of a model's answer, as it passes, how many tokens it took: Anthropic's Messages, OpenAI's Responses and Chat Completions, Gemini's
 * generateContent, and what others offer in their form; as a stream of events or as one document.
 *
 * SECURITY: the answer is a server's, and the server may be the sandbox's friend. Nothing of it is kept but a few numbers and a name, whatever its size and
 * shape, and nothing in it is an error.
 */
import type { ModelUsage } from '../core/network.ts'
import { type Field, JsonScan } from './json-scan.ts'

/** How the answer is written down. */
export type AnswerForm = 'events' | 'json'

/** Undefined where no answer of a model looks like it. */
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
/** Some events have the answer, or the part of it that is known by then, as a field of theirs. */
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
  /** How many bytes of the line were read as `data:`; -1 where the line is something else. */
  #column = 0
  #isAfterReturn = false

  constructor(form: AnswerForm) {
    this.#form = form
  }

  push(chunk: Buffer): void {
    if (this.#form === 'json') this.#scan.push(chunk)
    else this.#lines(chunk)
  }

  /** What was counted so far: of an answer that is cut, what it told until then. Undefined where it told nothing. */
  get usage(): ModelUsage | undefined {
    if (this.#counts.size === 0) return undefined
    const of = (name: string): number => this.#counts.get(name) ?? 0
    // Anthropic counts what was read from a cache, and what was written to it, beside the input; the others count it within.
    const isBeside = !this.#counts.has('cached')
    const cached = isBeside ? of('read') : Math.min(of('cached'), of('input'))
    const input = isBeside ? of('input') + of('written') : of('input') - cached
    return {
      model: this.#model ?? UNKNOWN,
      input: input + of('tools'),
      cached,
      output: of('output') + of('thoughts'),
    }
  }

  #take(field: string, value: string | number): void {
    if (field === 'model') {
      if (typeof value === 'string' && value !== '') this.#model ??= printable(value)
      return
    }
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > MOST_TOKENS) return
    // Told several times, they are told as sums, which only grow.
    this.#counts.set(field, Math.max(value, this.#counts.get(field) ?? 0))
  }

  /** Fields `data` of events; an empty line ends an event, and with it the document. */
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

function printable(text: string): string {
  return text.slice(0, LONGEST_MODEL).replaceAll(/[^!-~]/g, '?')
}
