/** The workbench's person at this terminal: questions are asked, notices printed, progress shown. */
import type { Home } from '../../core/home.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Notice, Person, QuestionKind, Questions } from '../../workbench/ask.ts'
import { allowInProject, BuildLog } from './build-log.ts'
import { StepLogs } from './step-logs.ts'
import type { Terminal } from './terminal.ts'

export interface PersonOptions {
  readonly home: Home
  readonly terminal: Terminal
  /** Whether the output is for a program: then only the approval of a project's file is asked for. */
  readonly isJson?: boolean | undefined
  /** Called for Ctrl-C at a question of an agent. */
  readonly onInterrupt?: (() => void) | undefined
}

type Answers = {
  [K in QuestionKind]: (
    about: Questions[K]['about'],
    signal: AbortSignal | undefined,
  ) => Promise<Questions[K]['answer']>
}

export function terminalPerson({ home, terminal, isJson, onInterrupt }: PersonOptions): Person {
  return {
    async question(kind, about, { signal } = {}) {
      if (!terminal.isInteractive || (isJson && kind !== 'grant')) return undefined
      const ask = await import('./questions.ts')
      const answers: Answers = {
        grant: (grant) => ask.askGrant(terminal, grant),
        gated: (gated) => ask.askGated(terminal, gated),
        uncommitted: (uncommitted) => ask.askUncommitted(terminal, uncommitted),
        permission: (permission, over) =>
          ask.askPermission(terminal, permission, { signal: over, onInterrupt }),
      }
      return answers[kind](about, signal)
    },
    notice: (notice) => terminal.say(noticeLine(terminal, notice)),
    progress: ({ project, isDockerfile }) =>
      new BuildLog(terminal, {
        ...(project !== undefined && { logs: new StepLogs(home, project) }),
        ...(isDockerfile && { allowHint: allowInProject }),
      }),
  }
}

function noticeLine(terminal: Terminal, { kind, text }: Notice): string {
  return kind === 'note' ? terminal.dim(`note: ${showHidden(text)}`) : showHidden(text)
}
