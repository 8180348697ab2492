/** Progress of the daemon as JSON lines. An error is one of the lines, although the status is 200. */
import type { Readable } from 'node:stream'
import { AgentPodError } from '../../../core/error.ts'
import { printableMessage } from './response-error.ts'
import { PROGRESS } from './responses.ts'

const LONGEST_LINE = 1024 * 1024

/** Each complete line of a stream. */
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

/** Reads to the end and returns the last line; throws the error that the daemon reports. */
export async function followProgress(
  stream: Readable,
  onProgress: (line: string) => void = () => undefined,
): Promise<string> {
  let last = ''
  for await (const value of jsonLines(stream)) {
    const { success, data } = PROGRESS.safeParse(value)
    if (!success) continue
    if (data.error !== undefined) throw failed(data.error)
    const words = printableMessage(data.status ?? data.stream ?? '')
    if (words === '') continue
    last = words
    // Skip the progress bars of single layers, but report when one is complete.
    if (data.progress === undefined) onProgress(data.id ? `${printableMessage(data.id)}: ${words}` : words)
  }
  return last
}

function failed(said: string): AgentPodError {
  const words = printableMessage(said)
  if (/no space left on device|disk quota exceeded/i.test(words))
    return new AgentPodError({
      code: 'resource_exhausted',
      reason: 'disk.full',
      message: 'the disk of the Docker daemon is full',
      hint: 'free disk space (`docker system df` shows its use) and try again',
    })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'docker.failed',
    message: `Docker: ${words}`,
  })
}
