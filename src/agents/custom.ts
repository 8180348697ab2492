/** Any command at all: `acp` is one that speaks the Agent Client Protocol, `custom` one that does its work and ends. */

import { shellWord } from '../util/shell-word.ts'
import { acpDriver } from './acp.ts'
import type { Agent } from './agent.ts'
import type { Assignment, Launch } from './assignment.ts'
import { clip, LONGEST_TEXT } from './clip.ts'
import { endByExit, lineDriver } from './json-lines.ts'

const PROMPT = '{prompt}'
/** What agents call the mode in which they ask nothing. */
const BYPASS_MODES = ['bypassPermissions', 'yolo', 'agent-full-access', 'full-access', 'bypass']

const common = {
  install: { kind: 'none' },
  credentials: [],
} as const

/** Its lines are its words, and its exit code says whether it was done. */
export const custom: Agent = {
  ...common,
  name: 'custom',
  title: 'a command',
  coAuthor: { name: 'agentpod custom agent', email: 'noreply@example.com' },
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
  launch: (assignment) => ({ ...told(assignment), command: withPrompt(assignment) }),
}

export const acp: Agent = {
  ...common,
  name: 'acp',
  title: 'a command that speaks ACP',
  coAuthor: { name: 'agentpod custom agent', email: 'noreply@example.com' },
  driver: acpDriver({ modes: { bypass: BYPASS_MODES, asking: ['default', 'ask', 'manual'] } }),
  canAsk: true,
  canResume: true,
  takesMcp: true,
  namesServers: false,
  launch: (assignment) => ({ ...told(assignment), command: assignment.command }),
}

/** In place of `{prompt}`, or else as the last word. */
function withPrompt({ command, prompt }: Assignment): readonly string[] {
  if (!command.some((word) => word.includes(PROMPT))) return [...command, prompt]
  // A shell's script gets it as one word.
  const isScript = /^(?:.*\/)?(?:ba|da|z)?sh$/.test(command[0] ?? '') && command[1] === '-c'
  return command.map((word, at) =>
    word.replaceAll(PROMPT, () => (isScript && at === 2 ? shellWord(prompt) : prompt)),
  )
}

function told({ prompt, model }: Assignment): Omit<Launch, 'command'> {
  return {
    variables: { AGENTPOD_PROMPT: prompt, ...(model !== undefined && { AGENTPOD_MODEL: model }) },
    files: [],
  }
}
