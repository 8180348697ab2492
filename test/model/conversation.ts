/** Requests to a model and its answers, independent of the protocol. */

export interface Tool {
  readonly name: string
  /** A function takes the properties of an object; a custom tool takes plain text. */
  readonly kind: 'function' | 'custom'
  readonly properties: readonly Property[]
}

export interface Property {
  readonly name: string
  readonly type: string
  readonly required: boolean
}

export type Turn =
  | { readonly from: 'user'; readonly text: string }
  | { readonly from: 'model'; readonly text: string }
  | { readonly from: 'call'; readonly tool: string }
  | { readonly from: 'tool'; readonly text: string }

export interface Conversation {
  readonly model: string
  readonly streams: boolean
  readonly system: string
  readonly tools: readonly Tool[]
  readonly history: readonly Turn[]
  /**
   * A request for JSON with these properties and nothing else, as agents make it for the title of a
   * conversation.
   */
  readonly form: readonly Property[]
}

export interface ToolCall {
  readonly tool: string
  /** Text is the input of a custom tool. */
  readonly input: Readonly<Record<string, unknown>> | string
}

/** The next thing that a model does. `cut`: the connection breaks in the middle of the text. */
export type Step =
  | { readonly kind: 'text'; readonly text: string; readonly everyMs?: number }
  | { readonly kind: 'call'; readonly text: string; readonly call: ToolCall }
  | { readonly kind: 'cut'; readonly text: string }
  | {
      readonly kind: 'error'
      readonly status: number
      readonly message: string
      readonly retryAfterS?: number
    }

/** An answer as a protocol sends it. */
export interface Answer {
  readonly id: string
  readonly model: string
  readonly text: string
  readonly call: ToolCall | undefined
}

/**
 * The usage of every answer, so that a test knows the cost of a run. Cached tokens are not part of the input.
 */
export const USAGE = { input: 1200, cached: 800, output: 40 } as const
