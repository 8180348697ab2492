/** Interleaves the output of several programs, each line with the name of its program. */
import type { Process } from '../../client/process.ts'
import { safeOutput } from '../output/safe-output.ts'
import type { Terminal } from '../output/terminal.ts'
import { shellCode } from './attach-terminal.ts'

/** A line without an end is written when it is this long. */
const LONGEST_LINE_BYTES = 64 * 1024
const NEWLINE = 10

export interface Named {
  readonly name: string
  readonly process: Pick<Process, 'output' | 'exit'>
}

/** Runs until all have ended. Gives the exit code of the first that failed. */
export async function showTogether(
  terminal: Pick<Terminal, 'stdout' | 'stderr' | 'say' | 'dim'>,
  programs: readonly Named[],
): Promise<number> {
  const width = Math.max(...programs.map(({ name }) => name.length))
  let first = 0
  await Promise.all(
    programs.map(async ({ name, process }) => {
      await show(terminal, terminal.dim(`${name.padEnd(width)} │ `), process)
      const code = shellCode(process.exit)
      first ||= code
      terminal.say(`${name} ended with code ${code}`)
    }),
  )
  return first
}

async function show(
  terminal: Pick<Terminal, 'stdout' | 'stderr'>,
  prefix: string,
  process: Named['process'],
): Promise<void> {
  const rest: Record<'stdout' | 'stderr', Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
  const out = { stdout: safeOutput(terminal.stdout), stderr: safeOutput(terminal.stderr) }
  const write = async (stream: 'stdout' | 'stderr', line: Buffer): Promise<void> => {
    await out[stream].write(Buffer.concat([Buffer.from(prefix), line, Buffer.from('\n')]))
  }
  for await (const { stream: from, data } of process.output()) {
    const stream = from === 'stderr' ? from : 'stdout'
    const { lines, left } = split(Buffer.concat([rest[stream], data]))
    rest[stream] = left
    for (const line of lines) await write(stream, line)
  }
  for (const stream of ['stdout', 'stderr'] as const)
    if (rest[stream].length > 0) await write(stream, rest[stream])
}

function split(text: Buffer): { readonly lines: readonly Buffer[]; readonly left: Buffer } {
  const lines: Buffer[] = []
  let at = 0
  for (let end = text.indexOf(NEWLINE); end >= 0; end = text.indexOf(NEWLINE, at)) {
    lines.push(text.subarray(at, end))
    at = end + 1
  }
  const left = text.subarray(at)
  return left.length < LONGEST_LINE_BYTES
    ? { lines, left }
    : { lines: [...lines, left], left: Buffer.alloc(0) }
}
