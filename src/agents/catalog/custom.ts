/** Any command that does its work and exits. */
import { shellWord } from '../../util/shell/shell-word.ts'
import type { Agent } from '../agent.ts'
import type { Assignment, Launch } from '../assignment.ts'
import { endByExit, lineDriver } from '../drivers/json-lines.ts'
import { clip, LONGEST_TEXT } from '../drivers/output/clip.ts'

const PROMPT = '{prompt}'

/** Each line that the command prints is a message, and its exit code says whether it succeeded. */
export const custom: Agent = {
  name: 'custom',
  title: 'a command',
  coAuthor: { name: 'agentpod custom agent', email: 'noreply@example.com' },
  install: { kind: 'none' },
  credentials: [],
  takesCommand: true,
  acpVariant: 'acp',
  driver: lineDriver<null>({
    start: null,
    read: (own, _, line) => ({
      own,
      events: [{ type: 'message', from: 'agent', message: 'm1', text: `${clip(line, LONGEST_TEXT)}\n` }],
    }),
    end: (_, exitCode) => endByExit(exitCode),
  }),
  canAsk: false,
  canResume: false,
  takesMcp: false,
  launch: (assignment) => ({
    command: withPrompt(assignment),
    variables: promptVariables(assignment),
    files: [],
  }),
}

/** Puts the prompt in place of `{prompt}`, or appends it as the last argument. */
function withPrompt({ command, prompt }: Assignment): readonly string[] {
  if (!command.some((word) => word.includes(PROMPT))) return [...command, prompt]
  // Inside the script of `sh -c` the prompt is quoted, so that the shell reads it as one word.
  const isScript = /^(?:.*\/)?(?:ba|da|z)?sh$/.test(command[0] ?? '') && command[1] === '-c'
  return command.map((word, at) =>
    word.replaceAll(PROMPT, () => (isScript && at === 2 ? shellWord(prompt) : prompt)),
  )
}

export function promptVariables({ prompt, model }: Assignment): Launch['variables'] {
  return { AGENTPOD_PROMPT: prompt, ...(model !== undefined && { AGENTPOD_MODEL: model }) }
}
