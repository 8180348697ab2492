/** The commit message of a run: the prompt, what the agent says it did, and trailers that name the run. */
import { agentNamed } from '../../agents/agents.ts'
import type { RunEventInfo, RunInfo } from '../../client/runs.ts'
import { oneLine, truncate } from '../../util/one-line.ts'
import { RESULT_TRAILER, RUN_TRAILER, TURN_TRAILER } from './list-run-branches.ts'

const LONGEST_SUBJECT = 72
const LONGEST_BODY = 2000
const MOST_SUBJECTS = 20

/** SECURITY: the agent's text is in paragraphs above the trailers, where git reads no trailer. */
export function commitMessage(run: RunInfo, events: readonly RunEventInfo[]): string {
  const subjects = (run.result?.commits ?? []).slice(0, MOST_SUBJECTS)
  return [
    truncate(firstLine(run.turn > 1 ? lastPrompt(run, events) : run.prompt), LONGEST_SUBJECT) ||
      `Changes of ${run.agent}`,
    shortened(lastMessage(events)),
    subjects.map((subject) => `- ${truncate(oneLine(subject), LONGEST_SUBJECT)}`).join('\n'),
    [
      `Co-authored-by: ${coAuthor(run.agent)}`,
      `${RUN_TRAILER}: ${run.id}`,
      `${RESULT_TRAILER}: ${run.result?.tree ?? ''}`,
      ...(run.turn > 1 ? [`${TURN_TRAILER}: ${run.turn}`] : []),
    ].join('\n'),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

function firstLine(text: string): string {
  const line = text.split('\n').find((one) => one.trim() !== '') ?? ''
  // Git takes a line that begins with # for a comment.
  return oneLine(line)
    .trim()
    .replace(/^#+\s*/, '')
}

function shortened(text: string): string {
  const lines = text.trim().split('\n').map(oneLine)
  return truncate(lines.join('\n'), LONGEST_BODY)
}

function coAuthor(name: string): string {
  const { coAuthor } = agentNamed(name)
  return `${coAuthor.name} <${coAuthor.email}>`
}

/** The latest prompt. */
function lastPrompt({ prompt }: RunInfo, events: readonly RunEventInfo[]): string {
  const asked = events.findLast(({ body }) => body.type === 'message' && body.from === 'user')?.body
  return asked?.type === 'message' ? asked.text : prompt
}

/**
 * The last message of the agent, joined from its parts. Other events between two parts separate two messages.
 */
export function lastMessage(events: readonly RunEventInfo[]): string {
  let [text, message, isOpen] = ['', '', false]
  for (const { body } of events) {
    if (body.type === 'message' && body.from === 'agent') {
      text = isOpen && body.message === message ? joined(text, body.text) : body.text
      ;[message, isOpen] = [body.message, true]
    } else if (!BETWEEN_PARTS.has(body.type)) isOpen = false
  }
  return text
}

/**
 * Some agents send two messages with nothing between them: a new sentence after a full stop begins a
 * paragraph.
 */
function joined(before: string, after: string): string {
  return /[.!?:]$/.test(before) && /^\p{Lu}\p{L}*\s/u.test(after) ? `${before}\n\n${after}` : before + after
}

/** Events that may arrive between the parts of one message. */
const BETWEEN_PARTS: ReadonlySet<RunEventInfo['body']['type']> = new Set(['usage', 'note', 'network.denied'])
