/** Takes the result of a run from its sandbox and keeps it until a client asks for it. */
import { createHash } from 'node:crypto'
import type { RunProject, RunResult } from '../core/run.ts'
import type { GuestConnection } from '../engine/context.ts'
import { followConversation, startConversation } from '../guest/conversation.ts'
import { type ScriptEvent, takeResult } from '../sync/git/result/take-result.ts'

const RESULT_MS = 10 * 60_000

export interface TakeRunOptions {
  readonly project: RunProject
  readonly user: string
  /** Where the pack is written. A file that is there is replaced. */
  readonly file: string
  readonly signal: AbortSignal
}

export function takeRunResult({ guest }: GuestConnection, o: TakeRunOptions): Promise<RunResult> {
  const { project, user, file } = o
  const signal = AbortSignal.any([o.signal, AbortSignal.timeout(RESULT_MS)])
  const tag = `result-${createHash('sha256').update(`${file} ${performance.now()}`).digest('hex').slice(0, 16)}`
  const run = async function* (command: string, args: readonly string[]): AsyncGenerator<ScriptEvent> {
    const process = { command: [command, ...args], user, workdir: '/', variables: {}, tag, stdin: false }
    await startConversation(guest, process, signal)
    for await (const event of followConversation(guest, tag, { offset: 0, signal })) {
      if (event.kind === 'gap') yield { kind: 'lost' }
      else if (event.kind === 'end') yield { kind: 'end', exitCode: event.exit.exitCode }
      else yield event
    }
  }
  return takeResult({ project, user, file, isDurable: true, run })
}
