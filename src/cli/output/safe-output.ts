/**
 * SECURITY: CP-10. Writes output of a program inside to the user's terminal. Control sequences could set the
 * clipboard or the title, or type as the user. Colours pass; other sequences are shown as text. A pipe gets
 * every byte unchanged.
 */
import type { WriteStream } from 'node:tty'
import { showHidden } from '../../util/hidden-characters.ts'

export interface SafeOutput {
  write(data: Buffer): Promise<void>
  /** Writes the held back beginning of a sequence that did not continue. */
  end(): Promise<void>
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
const PASSING = /(\u001b\[[0-9;:]{0,30}m|\r?\n|\t)/
/** The beginning of a colour or of a line end, at the end of a chunk. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
const UNFINISHED = /(?:\u001b(?:\[[0-9;:]{0,30})?|\r)$/

export function safeOutput(out: WriteStream, isRaw = false): SafeOutput {
  if (isRaw || !out.isTTY) return { write: (data) => put(out, data), end: async () => undefined }
  const decoder = new TextDecoder()
  let held = ''
  return {
    write(data) {
      const text = held + decoder.decode(data, { stream: true })
      held = UNFINISHED.exec(text)?.[0] ?? ''
      return put(out, safe(text.slice(0, text.length - held.length)))
    },
    end() {
      const rest = held + decoder.decode()
      held = ''
      return put(out, safe(rest))
    },
  }
}

/** Programs overwrite a line with a lone carriage return; here the new text starts a new line. */
function safe(text: string): string {
  const pieces = text.split(PASSING)
  return pieces
    .map((piece, at) => (at % 2 === 1 ? piece : piece.split('\r').map(showHidden).join('\n')))
    .join('')
}

async function put(out: WriteStream, data: Buffer | string): Promise<void> {
  if (data.length > 0 && !out.write(data)) await new Promise((resolve) => out.once('drain', resolve))
}
