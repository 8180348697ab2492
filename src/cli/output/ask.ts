/** One question to the person at the terminal. */
import { createInterface } from 'node:readline/promises'
import type { Terminal } from './terminal.ts'

/** Only yes is yes; the end of the input is no. */
export async function isYes({ stdin, stderr }: Terminal, question: string): Promise<boolean> {
  const lines = createInterface({ input: stdin, output: stderr })
  try {
    const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
    const answer = await Promise.race([lines.question(`${question} [y/N] `), closed])
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    lines.close()
  }
}
