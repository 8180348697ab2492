/** The message of the commit that a run becomes: what was asked for, what the agent says it did, and whose run it was. */
import { agentNamed } from '../agents/agents.ts'
import type { RunEventInfo, RunInfo } from '../client/runs.ts'
import { cut, oneLine } from './output/run-lines.ts'
import { RESULT_TRAILER, RUN_TRAILER, TURN_TRAILER } from './run-branches.ts'

const LONGEST_SUBJECT = 72
const LONGEST_BODY = 2000
const MOST_SUBJECTS = 20

/** SECURITY: what the agent wrote stands above the trailers, in paragraphs of its own, where git takes nothing for a trailer. */
export function commitMessage(run: RunInfo, events: readonly RunEventInfo[]): string {
  const subjects = (run.result?.commits ?? []).slice(0, MOST_SUBJECTS)
  return [
    cut(firstLine(run.turn > 1 ? lastPrompt(run, events) : run.prompt), LONGEST_SUBJECT) ||
      `Changes of ${run.agent}`,
    shortened(lastMessage(events)),
    subjects.map((subject) => `- ${cut(oneLine(subject), LONGEST_SUBJECT)}`).join('\n'),
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
  // A line that begins with this is a comment to git.
  return oneLine(line)
    .trim()
    .replace(/^#+\s*/, '')
}

function shortened(text: string): string {
  const lines = text.trim().split('\n').map(oneLine)
  return cut(lines.join('\n'), LONGEST_BODY)
}

function coAuthor(name: string): string {
  const { coAuthor } = agentNamed(name)
  return `${coAuthor.name} <${coAuthor.email}>`
}

/** What the agent was asked last. */
function lastPrompt({ prompt }: RunInfo, events: readonly RunEventInfo[]): string {
  const asked = events.findLast(({ body }) => body.type === 'message' && body.from === 'user')?.body
  return asked?.type === 'message' ? asked.text : prompt
}

/** The last message of the agent, put together from its parts. What stands between two parts tells two messages apart. */
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

/** Some agents say two things in a row without a word between them. Parts of one sentence are not told apart so. */
function joined(before: string, after: string): string {
  return /[.!?:]$/.test(before) && /^\p{Lu}\p{L}*\s/u.test(after) ? `${before}\n\n${after}` : before + after
}

/** Events that may come while the agent speaks. */
const BETWEEN_PARTS: ReadonlySet<RunEventInfo['body']['type']> = new Set(['usage', 'note', 'network.denied'])
