/** Runs agents at this terminal: starts them, follows them, and makes their branches. */
import type { Run } from '../../client/runs.ts'
import { startAgents } from '../../workbench/run/start-agents.ts'
import { agentRequest } from '../args/agent-values.ts'
import { gateChoice } from '../args/gate-choice.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { bringBack } from './bring-back.ts'
import { exitCodeOfAll } from './exit-code.ts'
import { followAtTerminal } from './follow-at-terminal.ts'
import { promptOf } from './read-prompt.ts'

export async function runAgents(
  ctx: CommandContext,
  parsed: Parsed,
  agents: readonly string[],
): Promise<number> {
  const withGated = gateChoice(parsed)
  const prompt = await promptOf(ctx, parsed)
  const { runs, repo, template } = await startAgents(
    ctx,
    agentRequest(parsed, { agents, prompt, env: ctx.env }),
  )
  if (parsed.has('detach')) return detached(ctx, parsed, runs)
  const isJson = parsed.has('json')
  const ended = await followAtTerminal(ctx, runs, { isJson })
  for (const run of ended) await bringBack(ctx, repo, run, { template, withGated, isJson })
  if (ended.length > 1) ctx.terminal.say(`to compare them: ${ctx.terminal.bold('agentpod compare')}`)
  return exitCodeOfAll(ended.map(({ info }) => info))
}

function detached({ terminal }: CommandContext, parsed: Parsed, runs: readonly Run[]): number {
  if (parsed.has('json')) terminal.out(JSON.stringify(runs.map(({ info }) => info)))
  else for (const { id } of runs) terminal.out(id)
  terminal.say('started; `agentpod follow` shows the progress and makes the branch')
  return 0
}
