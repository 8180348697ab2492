import type { IncomingHttpHeaders } from 'node:http'
import type { Answer, Conversation, Property } from '../conversation.ts'
import { at, listAt, textAt } from '../json.ts'

/** The protocol of one kind of model service. */
export interface Protocol {
  readonly name: string
  /** Matched against the path without the query string. */
  readonly path: RegExp
  /** The key that came with a request. */
  key(headers: IncomingHttpHeaders, query: URLSearchParams): string | undefined
  read(body: unknown, path: string): Conversation
  /** Pieces of an event stream, a word or less in each. */
  stream(answer: Answer): readonly string[]
  whole(answer: Answer): unknown
  /** The body of a refusal. */
  refusal(status: number, message: string): unknown
  /** The service's answer to an unknown key. */
  readonly badKey: { readonly status: number; readonly message: string }
}

export function serverSentEvent(data: unknown, event?: string): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`
}

export function words(text: string): readonly string[] {
  return text.match(/\s*\S+\s*?/g) ?? []
}

export function bearer(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1]
}

/** The properties that a JSON schema of an object names. */
export function propertiesOf(schema: unknown): readonly Property[] {
  const required = listAt(schema, 'required')
  return Object.entries((at(schema, 'properties') ?? {}) as Record<string, unknown>).map(
    ([name, property]) => ({
      name,
      type: textAt(property, 'type').toLowerCase(),
      required: required.includes(name),
    }),
  )
}

export function inputText({ call }: Answer): string {
  return typeof call?.input === 'string' ? call.input : JSON.stringify(call?.input ?? {})
}
