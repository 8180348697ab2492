/**
 * The stored events of a run: parts of one message that came together are joined, and the total size is
 * limited.
 */
import type { RunEventBody } from '../core/run.ts'

const LARGEST_TRANSCRIPT = 64 * 1024 * 1024
const CUT: RunEventBody = {
  type: 'note',
  text: 'The transcript is full: further messages and actions of the agent are not stored.',
}

/**
 * Stored even if the transcript is full: without them questions could not be answered and the end would be
 * unknown.
 */
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
 * SECURITY: CP-16. Those have a limit too: an agent that asks endlessly, each time refused by a rule, would
 * fill the disk.
 */
export function isFlood(bytes: number): boolean {
  return bytes >= 2 * LARGEST_TRANSCRIPT
}

export interface KeptEvents {
  readonly events: readonly RunEventBody[]
  readonly bytes: number
}

/** `bytes` is the size of the transcript so far. */
export function keep(events: readonly RunEventBody[], bytes: number): KeptEvents {
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
    if (last && isText(event) && isText(last) && isSame(event, last))
      result[result.length - 1] = { ...last, text: last.text + event.text }
    else result.push(event)
  }
  return result
}

type TextEvent = Extract<RunEventBody, { type: 'message' | 'thought' }>

function isText(event: RunEventBody): event is TextEvent {
  return event.type === 'message' || event.type === 'thought'
}

function isSame(a: TextEvent, b: TextEvent): boolean {
  return a.type === b.type && a.message === b.message
}
