/**
 * SECURITY: CP-10. The bytes of a program inside, on their way to the person's terminal. A terminal obeys what it is sent: it would set the clipboard, its title,
 * or answer as if the person had typed. Colours pass; everything else of that kind is shown as text. A pipe gets every byte as it is.
 */
import type { WriteStream } from 'node:tty'
import { showHidden } from '../../util/hidden-characters.ts'

export interface SafeOutput {
  write(data: Buffer): Promise<void>
  /** Writes what was held back because it might have gone on. */
  end(): Promise<void>
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
const PASSING = /(\u001b\[[0-9;:]{0,30}m|\r?\n|\t)/
/** The beginning of a colour, or of the end of a line, at the end of a piece. */
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

/** A carriage return alone is how a program overwrites its own line; here the next state of it is on the next line. */
function safe(text: string): string {
  const pieces = text.split(PASSING)
  return pieces
    .map((piece, at) => (at % 2 === 1 ? piece : piece.split('\r').map(showHidden).join('\n')))
    .join('')
}

async function put(out: WriteStream, data: Buffer | string): Promise<void> {
  if (data.length > 0 && !out.write(data)) await new Promise((resolve) => out.once('drain', resolve))
}
