/** A terminal or a pipe in memory, as commands see it, and the run that they are given. For tests. */
import { PassThrough } from 'node:stream'
import type { ReadStream, WriteStream } from 'node:tty'
import type { RunEventBodyView, RunEventView, RunView } from '../../api/schema/run.ts'
import { type Terminal, terminal } from '../output/terminal.ts'

export interface Screen {
  readonly terminal: Terminal
  /** What was written so far, colours left out. */
  readonly out: () => string[]
  readonly said: () => string[]
  /** As if somebody typed it. */
  type(text: string): void
}

export function screen(o: { readonly isTerminal?: boolean; readonly columns?: number } = {}): Screen {
  const isTTY = o.isTerminal ?? false
  const stream = (): PassThrough & { isTTY?: boolean; columns?: number } =>
    Object.assign(new PassThrough(), { isTTY, columns: o.columns ?? 80 })
  const [stdin, stdout, stderr] = [stream(), stream(), stream()]
  const kept = { out: '', said: '' }
  stdout.on('data', (data: Buffer) => {
    kept.out += data.toString('utf8')
  })
  stderr.on('data', (data: Buffer) => {
    kept.said += data.toString('utf8')
  })
  return {
    terminal: terminal(
      {
        stdin: stdin as unknown as ReadStream,
        stdout: stdout as unknown as WriteStream,
        stderr: stderr as unknown as WriteStream,
      },
      { NO_COLOR: '1' },
    ),
    out: () => linesOf(kept.out),
    said: () => linesOf(kept.said),
    type: (text) => void stdin.write(text),
  }
}

function linesOf(text: string): string[] {
  return text
    .replace(/\n$/, '')
    .split('\n')
    .filter((line, _, all) => all.length > 1 || line !== '')
}

/** A run that has ended and changed something. */
export function exampleRun(differs: Partial<RunView> = {}): RunView {
  return {
    id: 'runabcdefghijkl',
    group: null,
    agent: 'claude',
    number: 1,
    turn: 1,
    model: null,
    prompt: 'Fix the failing test',
    state: 'ended',
    outcome: 'changed',
    reason: null,
    sandboxId: 'sandbox1',
    project: null,
    result: null,
    usage: { input: 1200, cached: 300, output: 80, requests: 3, costUsd: 0.25, source: 'wire', models: {} },
    denials: 0,
    limits: { timeMs: 3_600_000, costUsd: null, answerMs: 300_000 },
    createdAt: '2030-01-01T00:00:00.000Z',
    endedAt: '2030-01-01T00:01:30.000Z',
    keptUntil: null,
    ...differs,
  }
}

export function runEvents(...bodies: readonly RunEventBodyView[]): RunEventView[] {
  return bodies.map((body, index) => ({ seq: index + 1, at: '2030-01-01T00:00:00.000Z', body }))
}
