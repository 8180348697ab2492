/** What of a run's events is kept: parts of one message that came together are one, and a flood has an end. */
import type { RunEventBody } from '../core/run.ts'

const LARGEST_TRANSCRIPT = 64 * 1024 * 1024
const CUT: RunEventBody = {
  type: 'note',
  text: 'The transcript is full: what the agent says and does from here on is not kept.',
}

/** Told however full it is: without them nobody could answer, or know how it ended. */
const ALWAYS: ReadonlySet<RunEventBody['type']> = new Set([
  'state',
  'permission.asked',
  'permission.answered',
  'usage',
])

export function isFull(bytes: number): boolean {
  return bytes >= LARGEST_TRANSCRIPT
}

/**
 * SECURITY: CP-16. What is always told has an end too: an agent that asks without end, each time to be refused by a rule, would fill the disk.
 */
export function isFlood(bytes: number): boolean {
  return bytes >= 2 * LARGEST_TRANSCRIPT
}

export interface Kept {
  readonly events: readonly RunEventBody[]
  readonly bytes: number
}

/** `bytes` is how much the transcript has already. */
export function keep(events: readonly RunEventBody[], bytes: number): Kept {
  const kept: RunEventBody[] = []
  let size = bytes
  for (const event of joined(events)) {
    const isRoom = size < LARGEST_TRANSCRIPT
    if (!isRoom && !ALWAYS.has(event.type)) continue
    size += JSON.stringify(event).length
    kept.push(event)
    if (isRoom && size >= LARGEST_TRANSCRIPT) kept.push(CUT)
  }
  return { events: kept, bytes: size }
}

function joined(events: readonly RunEventBody[]): RunEventBody[] {
  const result: RunEventBody[] = []
  for (const event of events) {
    const last = result.at(-1)
    if (last && isSpoken(event) && isSpoken(last) && isSame(event, last))
      result[result.length - 1] = { ...last, text: last.text + event.text }
    else result.push(event)
  }
  return result
}

type Spoken = Extract<RunEventBody, { type: 'message' | 'thought' }>

function isSpoken(event: RunEventBody): event is Spoken {
  return event.type === 'message' || event.type === 'thought'
}

function isSame(a: Spoken, b: Spoken): boolean {
  return a.type === b.type && a.message === b.message
}
