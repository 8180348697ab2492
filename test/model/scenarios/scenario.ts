import type { Step } from '../conversation.ts'
import { type Deed, stepFor } from '../deed.ts'
import type { Talk } from '../talk.ts'

/** The next step of a model, decided from the conversation alone. */
export type Scenario = (talk: Talk) => Step

export interface Task {
  readonly say: string
  readonly deed: Deed
}

/** Runs tasks in sequence, each after the result of the previous one, and ends with a message. */
export function inTurn(
  { conversation, results, directory }: Talk,
  tasks: readonly Task[],
  last: () => string,
): Step {
  const task = tasks[results.length]
  if (!task) return { kind: 'text', text: last() }
  return stepFor(task.deed, task.say, conversation.tools, directory)
}

export function running(say: string, command: string): Task {
  return { say, deed: { do: 'run', command } }
}
