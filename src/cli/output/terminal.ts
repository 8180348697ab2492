/** The user's terminal: colour and progress on a terminal, plain lines in a pipe. */
import type { ReadStream, WriteStream } from 'node:tty'
import { showUnlikelyHidden } from '../../util/hidden-characters.ts'

export interface Terminal {
  readonly stdin: ReadStream
  readonly stdout: WriteStream
  readonly stderr: WriteStream
  readonly isInteractive: boolean
  /** A line of the result. Non-ASCII control characters are shown as numbers, in JSON as escapes. */
  out(line: string): void
  /** A line about the work, on stderr; never part of the result. */
  say(line: string): void
  /** A line that the next one replaces. Prints nothing in a pipe. */
  progress(line: string): void
  clearProgress(): void
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
}

export function terminal(
  streams: { stdin: ReadStream; stdout: WriteStream; stderr: WriteStream },
  env: Readonly<Record<string, string | undefined>>,
): Terminal {
  const { stdin, stdout, stderr } = streams
  const isColour = stderr.isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  const paint = (code: number) => (text: string) => (isColour ? `\u001b[${code}m${text}\u001b[0m` : text)
  let hasProgress = false
  const clearProgress = (): void => {
    if (hasProgress) stderr.write('\r\u001b[K')
    hasProgress = false
  }
  return {
    stdin,
    stdout,
    stderr,
    isInteractive: stdin.isTTY === true && stdout.isTTY === true,
    out: (line) => void stdout.write(`${showUnlikelyHidden(line)}\n`),
    say(line) {
      clearProgress()
      stderr.write(`${showUnlikelyHidden(line)}\n`)
    },
    progress(line) {
      if (!stderr.isTTY || env['TERM'] === 'dumb') return
      stderr.write(`\r\u001b[K${line.slice(0, (stderr.columns || 80) - 1)}`)
      hasProgress = true
    },
    clearProgress,
    bold: paint(1),
    dim: paint(2),
    red: paint(31),
    green: paint(32),
  }
}

/** Columns of text, padded to line up. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length)
    })
  }
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}
