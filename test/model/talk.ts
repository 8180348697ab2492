/**
 * A conversation as a scenario sees it: the prompt, and everything since. All of it is in the request; the
 * model stores nothing.
 */
import type { Conversation, Turn } from './conversation.ts'

export interface Talk {
  readonly conversation: Conversation
  /** Arguments of the marker in the prompt, such as `[[leak evil.example]]`. */
  readonly words: readonly string[]
  /** Earlier prompts, oldest first. */
  readonly earlier: readonly string[]
  /** Results of tools since the prompt, in order. */
  readonly results: readonly string[]
  /** How often exactly this request was received before. */
  readonly repeats: number
  /** The working directory, as the agent reports it; empty if it does not. */
  readonly directory: string
}

export interface Asked {
  /** Undefined if no prompt has a marker. */
  readonly scenario: string | undefined
  readonly talk: Talk
}

const MARKER = /\[\[([a-z]+)((?: [^\]\s]+)*)\]\]/
/** Text that agents put around the user's prompt, or before it in a separate message. */
const WRAPPING = /<([a-z][\w-]*)(?: [^<>]*)?>[\s\S]*?<\/\1>/g
const DIRECTORY =
  /(?:working directory|current directory|working in the directory|<cwd>|cwd)["*\s:=`]*(\/[^\s<>"'`,;]*)/i

export function listen(conversation: Conversation, repeats: number): Asked {
  const { history } = conversation
  const prompts = [...history.entries()].flatMap(([index, turn]) =>
    turn.from === 'user' && isPrompt(turn.text) ? [{ index, text: turn.text }] : [],
  )
  const current = prompts.findLast(({ text }) => MARKER.test(text)) ?? prompts.at(-1)
  const [, scenario, words = ''] = MARKER.exec(current?.text ?? '') ?? []
  const since = history.slice((current?.index ?? -1) + 1)
  return {
    scenario,
    talk: {
      conversation,
      words: words.split(' ').filter((word) => word !== ''),
      earlier: prompts.filter(({ index }) => index < (current?.index ?? 0)).map(({ text }) => spoken(text)),
      results: since.flatMap((turn) => (turn.from === 'tool' ? [turn.text] : [])),
      repeats,
      directory: directoryOf(conversation),
    },
  }
}

function isPrompt(text: string): boolean {
  return MARKER.test(text) || spoken(text) !== ''
}

function spoken(text: string): string {
  return text.replace(WRAPPING, '').trim()
}

function directoryOf({ system, history }: Conversation): string {
  const texts = history.flatMap((turn: Turn) => (turn.from === 'user' ? [turn.text] : []))
  for (const text of [system, ...texts]) {
    const found = DIRECTORY.exec(text)?.[1]
    if (found !== undefined) return found.replace(/[./]+$/, '')
  }
  return ''
}
