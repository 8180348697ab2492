/**
 * Starts agents on copies of the user's repository, each with its environment, its network and its model's
 * key.
 */
import { randomUUID } from 'node:crypto'
import type { Agent } from '../../agents/agent.ts'
import { checkUse } from '../../agents/permissions/check-use.ts'
import type { Run, RunOptions } from '../../client/runs.ts'
import { DEFAULT_ENVIRONMENT } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { checkTemplate, highestNumber } from '../../sync/git/branch/branch-name.ts'
import { openRepository, type Repository } from '../../sync/git/plumbing/repository.ts'
import { besideGroup } from '../compose/beside-group.ts'
import { type PreparedRepository, prepareRepository } from '../copy/prepare-repository.ts'
import { agentLayer } from '../environment/agent-layer.ts'
import { modelGrant, withGrant } from '../model/model-host.ts'
import { type ModelKey, modelKey } from '../model/model-key.ts'
import type { Workbench } from '../workbench.ts'
import type { AgentRequest } from './agent-request.ts'
import { type AgentSettings, agentSettings } from './agent-settings.ts'
import { type ChosenAgent, checkCommand, chooseAgents } from './choose-agents.ts'
import { permissionsOf } from './run-permissions.ts'

export interface StartedRuns {
  readonly runs: readonly Run[]
  readonly repo: Repository
  /** How their branches are named. */
  readonly template: string
}

/** Starts all of the runs or none. */
export async function startAgents(bench: Workbench, request: AgentRequest): Promise<StartedRuns> {
  if (request.prompt.trim() === '')
    throw invalid(
      'run.prompt',
      'the prompt is empty',
      'agentpod run claude "fix the failing test"; or --prompt-file FILE, - for standard input, or set EDITOR',
    )
  const repo = await openRepository(bench.cwd, bench.env)
  const settings = agentSettings(bench, request, repo.root)
  const chosen = chooseAgents(request.agents, { defaultAgent: settings.agent, isAcp: request.isAcp })
  checkCommand(chosen, request.command ?? [])
  const agents = [...new Set(chosen.map(({ agent }) => agent))]
  // Everything that can be refused is refused before anything is built or paid for.
  for (const agent of agents)
    checkUse(agent, { permissions: permissionsOf(request), mcpServers: request.mcpServers ?? [] })
  await checkTemplate(repo, settings.branch)
  const numbers = await eachOf(agents, (agent) => highestNumber(repo, settings.branch, agent.name))
  const pod = await bench.client()
  const keys = await eachOf(agents, (agent) => modelKey(bench, pod, agent, { baseUrl: request.baseUrl }))
  const grants = await eachOf(agents, async (agent) => {
    const address = keys.get(agent)?.baseUrl ?? request.baseUrl
    return address === undefined ? undefined : modelGrant(address)
  })
  const copy = await prepareRepository(bench, repo, request)
  const { base: name = DEFAULT_ENVIRONMENT.base, image } = copy.options.environment ?? {}
  const base = { name, ...(image !== undefined && { image }) }
  const layers = await eachOf(agents, (agent) => agentLayer(bench, agent, base, copy.options.provider))
  const shared = sharedOptions(request, settings, copy)
  const group = chosen.length > 1 ? { group: `group-${randomUUID().slice(0, 8)}` } : {}
  const runs = await startAll(bench, copy, chosen, ({ agent, number }) => ({
    ...shared,
    ...group,
    ...ownOptions(copy, keys.get(agent), layers.get(agent)),
    network: withGrant(copy.network, grants.get(agent)),
    agent: agent.name,
    prompt: request.prompt,
    number: (numbers.get(agent) ?? 0) + number,
  }))
  return { runs, repo, template: settings.branch }
}

/** The options that all runs share. */
function sharedOptions(
  request: AgentRequest,
  settings: AgentSettings,
  copy: PreparedRepository,
): Omit<RunOptions, 'agent' | 'prompt'> {
  const { timeMs, maxCostUsd, model } = settings
  const { answerMs, keepMs, mcpServers = [], command = [] } = request
  return {
    snapshot: copy.snapshot,
    resources: copy.options.resources,
    ...(copy.options.docker && { docker: true }),
    ...(copy.options.volumes && { volumes: copy.options.volumes }),
    project: { ...copy.project, directory: copy.directory },
    permissions: permissionsOf(request, settings),
    limits: {
      ...(timeMs !== undefined && { timeMs }),
      ...(answerMs !== undefined && { answerMs }),
      ...(maxCostUsd !== undefined && { costUsd: maxCostUsd }),
    },
    mcpServers: mcpServers.map((server) => ({
      ...server,
      args: [...server.args],
      env: { ...server.env },
    })),
    command: [...command],
    ...(model !== undefined && { model }),
    ...(keepMs !== undefined && { keepMs }),
  }
}

/** The options of one agent: its layer, its key and its files. */
function ownOptions(
  { options, files }: PreparedRepository,
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

/** Each run has a group of its own, so that agents do not share a database. */
async function startAll(
  bench: Workbench,
  { outside, options }: PreparedRepository,
  chosen: readonly ChosenAgent[],
  optionsOf: (one: ChosenAgent) => RunOptions,
): Promise<Run[]> {
  const runs: Run[] = []
  try {
    const pod = await bench.client()
    const beside = { ...outside, provider: options.provider, isKept: true, isSeparate: true }
    for (const one of chosen)
      runs.push(
        await besideGroup(bench, beside, (place) =>
          pod.runs.start({ ...optionsOf(one), ...(place && { place }) }),
        ),
      )
    return runs
  } catch (error) {
    await Promise.allSettled(runs.map((run) => run.cancel()))
    throw error
  }
}
