/** One question to the person at the terminal. */
import { createInterface } from 'node:readline/promises'
import type { Terminal } from './terminal.ts'

/** One of the answers, by its first letter; undefined where the input ends or something else is said. */
export async function choice<T extends string>(
  { stdin, stderr }: Terminal,
  question: string,
  answers: readonly T[],
): Promise<T | undefined> {
  const lines = createInterface({ input: stdin, output: stderr })
  try {
    const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
    const answer = await Promise.race([lines.question(question), closed])
    return answers.find((one) => one === answer.trim().toLowerCase().slice(0, 1))
  } finally {
    lines.close()
  }
}

/** Only yes is yes; the end of the input is no. */
export async function isYes(terminal: Terminal, question: string): Promise<boolean> {
  return (await choice(terminal, `${question} [y/N] `, ['y'])) === 'y'
}
