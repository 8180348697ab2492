/** Agents on copies of this repository, side by side, and what comes back of each. */
import { randomUUID } from 'node:crypto'
import type { Agent } from '../agents/agent.ts'
import { checkUse } from '../agents/check-use.ts'
import type { AgentPod } from '../client/client.ts'
import type { Run, RunOptions } from '../client/runs.ts'
import { DEFAULT_ENVIRONMENT } from '../core/environment.ts'
import { invalid } from '../core/error.ts'
import { checkTemplate, highestNumber } from '../sync/git/branch-name.ts'
import { openRepository } from '../sync/git/repository.ts'
import { agentLayer } from './agent-layer.ts'
import { type AgentSettings, agentSettings } from './agent-settings.ts'
import { type ChosenAgent, chosenAgents } from './args/agent-values.ts'
import type { Parsed } from './args/parse.ts'
import { bringBack } from './bring-back.ts'
import type { CommandContext } from './command.ts'
import { copyRepository, type RepositoryCopy } from './copy-repository.ts'
import { exitCodeOfAll } from './exit-code.ts'
import { followRuns } from './follow-runs.ts'
import { modelGrant, withGrant } from './model-host.ts'
import { type ModelKey, modelKey } from './model-key.ts'
import { permissionsOf } from './run-permissions.ts'

export async function runAgents(
  ctx: CommandContext,
  parsed: Parsed,
  named: readonly string[],
  prompt: string,
): Promise<number> {
  if (prompt.trim() === '')
    throw invalid(
      'run.prompt',
      'there is nothing to do: the prompt is empty',
      'agentpod run claude "fix the failing test"; or --prompt-file FILE, - for standard input, or set EDITOR',
    )
  const repo = await openRepository(ctx.cwd, ctx.env)
  const values = agentSettings(ctx, parsed, repo.root)
  const chosen = chosenAgents(named.map((name) => meant(name, values)))
  checkCommand(chosen, values)
  const agents = [...new Set(chosen.map(({ agent }) => agent))]
  // Before anything is built or paid for.
  for (const agent of agents)
    checkUse(agent, { permissions: permissionsOf(parsed), mcpServers: values.mcpServers })
  await checkTemplate(repo, values.branch)
  const numbers = await eachOf(agents, (agent) => highestNumber(repo, values.branch, agent.name))
  const pod = await ctx.client()
  // Before anything is built: a key that is missing is said at once.
  const keys = await eachOf(agents, (agent) => modelKey(ctx, pod, agent, { baseUrl: values.baseUrl }))
  const grants = await eachOf(agents, async (agent) => {
    const place = keys.get(agent)?.baseUrl ?? values.baseUrl
    return place === undefined ? undefined : modelGrant(place)
  })
  const copy = await copyRepository(ctx, parsed, repo)
  const { base: name = DEFAULT_ENVIRONMENT.base, image } = copy.options.environment ?? {}
  const base = { name, ...(image !== undefined && { image }) }
  const layers = await eachOf(agents, (agent) => agentLayer(ctx, agent, base, copy.options.provider))
  const shared = sharedOptions(parsed, values, copy)
  const group = chosen.length > 1 ? { group: `group-${randomUUID().slice(0, 8)}` } : {}
  const runs = await startAll(pod, chosen, ({ agent, number }) => ({
    ...shared,
    ...group,
    ...ownOptions(copy, keys.get(agent), layers.get(agent)),
    network: withGrant(copy.network, grants.get(agent)),
    agent: agent.name,
    prompt,
    number: (numbers.get(agent) ?? 0) + number,
  }))
  if (values.isDetached) return told(ctx, parsed, runs)
  const isJson = parsed.has('json')
  const ended = await followRuns(ctx, runs, { isJson })
  for (const run of ended)
    await bringBack(ctx, repo, run, { template: values.branch, withGated: values.withGated, isJson })
  if (ended.length > 1) ctx.terminal.say(`side by side: ${ctx.terminal.bold('agentpod compare')}`)
  return exitCodeOfAll(ended.map(({ info }) => info))
}

function meant(name: string, values: AgentSettings): string {
  if (name === 'agent') return defaultAgent(values)
  return values.isAcp ? name.replace(/^custom(?=:|$)/, 'acp') : name
}

/** Agents that are any command, and only those, are given one. */
function checkCommand(chosen: readonly ChosenAgent[], { command }: AgentSettings): void {
  const isAny = ({ agent }: ChosenAgent): boolean => agent.name === 'custom' || agent.name === 'acp'
  if (chosen.some(isAny) && command.length === 0)
    throw invalid(
      'agent.command',
      'the agent custom is a command, and none was given',
      `agentpod run custom --agent-command './my-agent "$0"' "fix the failing test"`,
    )
  if (!chosen.some(isAny) && command.length > 0)
    throw invalid('agent.command', '--agent-command is for the agent custom', 'agentpod run custom ...')
}

function defaultAgent({ agent }: AgentSettings): string {
  if (agent !== undefined) return agent
  throw invalid(
    'agent.none',
    'nobody has said which agent works here when none is named',
    'name one: `agentpod run claude "..."`; or say so in agentpod.toml: [agents] default = "claude"',
  )
}

/** What all of them have alike. */
function sharedOptions(
  parsed: Parsed,
  values: AgentSettings,
  copy: RepositoryCopy,
): Omit<RunOptions, 'agent' | 'prompt'> {
  const { timeMs, answerMs, maxCostUsd, model, keepMs } = values
  return {
    snapshot: copy.snapshot,
    resources: copy.options.resources,
    project: { ...copy.project, directory: copy.directory },
    permissions: permissionsOf(parsed, values),
    limits: {
      ...(timeMs !== undefined && { timeMs }),
      ...(answerMs !== undefined && { answerMs }),
      ...(maxCostUsd !== undefined && { costUsd: maxCostUsd }),
    },
    mcpServers: values.mcpServers.map((server) => ({
      ...server,
      args: [...server.args],
      env: { ...server.env },
    })),
    command: [...values.command],
    ...(model !== undefined && { model }),
    ...(keepMs !== undefined && { keepMs }),
  }
}

function ownOptions(
  { options, files }: RepositoryCopy,
  key: ModelKey | undefined,
  layer: string | undefined,
): Partial<RunOptions> {
  return {
    environment: { ...options.environment, ...(layer !== undefined && { extras: [layer] }) },
    files: [...files.map(({ path, text }) => ({ path, content: text })), ...(key?.files ?? [])],
    ...(key && { credential: key.credential, secret: key.secret }),
    ...(key?.baseUrl !== undefined && { baseUrl: key.baseUrl }),
  }
}

async function eachOf<T>(
  agents: readonly Agent[],
  work: (agent: Agent) => Promise<T>,
): Promise<Map<Agent, T>> {
  const found = new Map<Agent, T>()
  for (const agent of agents) found.set(agent, await work(agent))
  return found
}

/** All of them, or none. */
async function startAll(
  pod: AgentPod,
  chosen: readonly ChosenAgent[],
  optionsOf: (one: ChosenAgent) => RunOptions,
): Promise<Run[]> {
  const runs: Run[] = []
  try {
    for (const one of chosen) runs.push(await pod.runs.start(optionsOf(one)))
    return runs
  } catch (error) {
    await Promise.allSettled(runs.map((run) => run.cancel()))
    throw error
  }
}

function told({ terminal }: CommandContext, parsed: Parsed, runs: readonly Run[]): number {
  if (parsed.has('json')) terminal.out(JSON.stringify(runs.map(({ info }) => info)))
  else for (const { id } of runs) terminal.out(id)
  terminal.say('at work; `agentpod follow` shows how it goes and makes the branch')
  return 0
}
