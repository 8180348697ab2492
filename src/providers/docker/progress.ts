/** The lines of JSON in which the daemon tells how far it is. An error is one of the lines; the status says 200 all the same. */
import type { Readable } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import { PROGRESS } from './answers.ts'
import { wordsOf } from './refusal.ts'

const LONGEST_LINE = 1024 * 1024

/** Each line of a stream that is whole. */
export async function* jsonLines(stream: Readable): AsyncGenerator<unknown> {
  let rest = ''
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    rest += chunk.toString('utf8')
    if (rest.length > LONGEST_LINE) throw new Error('a line is too long')
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.trim() !== '') yield parsed(line)
  }
  if (rest.trim() !== '') yield parsed(rest)
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

/** Reads to the end and answers the last line; throws what the daemon says went wrong. */
export async function followProgress(
  stream: Readable,
  onProgress: (line: string) => void = () => undefined,
): Promise<string> {
  let last = ''
  for await (const value of jsonLines(stream)) {
    const { success, data } = PROGRESS.safeParse(value)
    if (!success) continue
    if (data.error !== undefined) throw failed(data.error)
    const words = wordsOf(data.status ?? data.stream ?? '')
    if (words === '') continue
    last = words
    // The bars of single layers are for a terminal; their ends are news.
    if (data.progress === undefined) onProgress(data.id ? `${wordsOf(data.id)}: ${words}` : words)
  }
  return last
}

function failed(said: string): AgentPodError {
  const words = wordsOf(said)
  if (/no space left on device|disk quota exceeded/i.test(words))
    return new AgentPodError({
      code: 'resource_exhausted',
      reason: 'disk.full',
      message: 'the disk of the Docker daemon is full',
      hint: 'free some disk space (`docker system df` shows what takes it) and try again',
    })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'docker.failed',
    message: `Docker: ${words}`,
  })
}
