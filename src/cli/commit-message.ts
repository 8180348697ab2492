/** The message of the commit that a run becomes: what was asked for, what the agent says it did, and whose run it was. */
import { agentNamed } from '../agents/agents.ts'
import type { RunEventInfo, RunInfo } from '../client/runs.ts'
import { cut, oneLine } from './output/run-lines.ts'
import { RESULT_TRAILER, RUN_TRAILER } from './run-branches.ts'

const LONGEST_SUBJECT = 72
const LONGEST_BODY = 2000
const MOST_SUBJECTS = 20

/** SECURITY: what the agent wrote stands above the trailers, in paragraphs of its own, where git takes nothing for a trailer. */
export function commitMessage(run: RunInfo, lastWords: string): string {
  const subjects = (run.result?.commits ?? []).slice(0, MOST_SUBJECTS)
  return [
    cut(firstLine(run.prompt), LONGEST_SUBJECT) || `Changes of ${run.agent}`,
    shortened(lastWords),
    subjects.map((subject) => `- ${cut(oneLine(subject), LONGEST_SUBJECT)}`).join('\n'),
    [
      `Co-authored-by: ${coAuthor(run.agent)}`,
      `${RUN_TRAILER}: ${run.id}`,
      `${RESULT_TRAILER}: ${run.result?.tree ?? ''}`,
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

/** The last message of the agent, put together from its parts. */
export function lastMessage(events: readonly RunEventInfo[]): string {
  const said = events.flatMap(({ body }) => (body.type === 'message' && body.from === 'agent' ? [body] : []))
  const last = said.at(-1)?.message
  return said
    .filter(({ message }) => message === last)
    .map(({ text }) => text)
    .join('')
}
