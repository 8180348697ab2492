import type { Run } from '../../client/runs.ts'
import { invalid } from '../../core/error.ts'
import { noRepository, type RunFinder, runFinder } from '../../workbench/run/find-run.ts'
import { updateRun } from '../../workbench/run/update-run.ts'
import { AGENT_OPTIONS, BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { limitOptions } from '../args/agent-values.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { promptOf } from '../runs/read-prompt.ts'
import { lastEvent, watchRuns } from '../runs/watch-runs.ts'

export const command: Command = {
  usage: 'agentpod send RUN [TEXT]',
  examples: [
    'agentpod send claude "now add a test for the empty list"',
    'agentpod send --detach run4f2k "and update the changelog"',
    'agentpod send --max-cost 5 codex "go on"',
    'agentpod send claude --prompt-file task.md  or: ... | agentpod send claude -',
    'agentpod send --update claude "use the new parser"    with your newer commits',
  ],
  options: {
    time: AGENT_OPTIONS.time,
    'max-cost': AGENT_OPTIONS['max-cost'],
    'prompt-file': AGENT_OPTIONS['prompt-file'],
    update: { help: 'bring your newer commits into its sandbox first' },
    detach: AGENT_OPTIONS.detach,
    ...BRANCH_OPTION,
    ...EXECUTABLES_OPTION,
    ...JSON_OPTION,
  },
  words: { min: 1, max: 10_000 },
  async run(ctx, parsed) {
    const [ref, ...words] = parsed.words
    const { timeMs, maxCostUsd } = limitOptions(parsed)
    const finder = await runFinder(ctx)
    const found = await finder.find(ref)
    const file = parsed.value('prompt-file')
    const text = await promptOf(ctx, { words, value: () => file })
    if (text === '')
      throw invalid(
        'words.missing',
        'missing argument: what should the agent do?',
        `agentpod send ${ref} TEXT; or --prompt-file FILE, - for standard input, or set EDITOR`,
      )
    const after = await lastEvent(found)
    const news = parsed.has('update') ? await updated(ctx, finder, found) : ''
    const run = await found.send(`${news}${text}`, { limits: { timeMs, costUsd: maxCostUsd } })
    if (parsed.has('detach')) {
      ctx.terminal.out(parsed.has('json') ? JSON.stringify(run.info) : run.id)
      return 0
    }
    return watchRuns(ctx, parsed, finder.repo, [run], { after: new Map([[run.id, after]]) })
  },
}

async function updated(ctx: CommandContext, { pod, repo, branches }: RunFinder, run: Run): Promise<string> {
  if (!repo) throw noRepository()
  return updateRun(ctx, pod, repo, branches, await run.refresh())
}
