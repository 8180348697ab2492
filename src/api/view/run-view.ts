/** Runs in the form of the API. */
import type { Run, RunEvent, RunUsage } from '../../core/run.ts'
import type { RunEventView, RunView, UsageOfRunView } from '../schema/run.ts'

export function runView(run: Run): RunView {
  const { project, result, limits } = run
  return {
    id: run.id,
    group: run.group ?? null,
    agent: run.agent,
    number: run.number,
    turn: run.turn,
    model: run.model ?? null,
    prompt: run.prompt,
    state: run.state,
    outcome: run.outcome ?? null,
    reason: run.reason ?? null,
    sandboxId: run.sandboxId ?? null,
    project: project
      ? {
          workspace: project.workspace,
          name: project.name,
          key: project.key,
          commit: project.commit ?? null,
          tree: project.tree,
        }
      : null,
    result: result
      ? {
          tree: result.tree,
          packBytes: result.packBytes,
          tooLarge: result.tooLarge.map((file) => ({ ...file })),
          leftOut: [...result.leftOut],
          commits: [...result.commits],
          submodules: [...result.submodules],
        }
      : null,
    usage: usageView(run.usage),
    denials: run.denials,
    limits: { ...limits, costUsd: limits.costUsd ?? null },
    createdAt: time(run.createdAt),
    endedAt: run.endedAt === undefined ? null : time(run.endedAt),
    keptUntil: run.keptUntil === undefined ? null : time(run.keptUntil),
  }
}

export function runEventView({ seq, at, body }: RunEvent): RunEventView {
  if (body.type === 'usage')
    return { seq, at: time(at), body: { type: 'usage', usage: usageView(body.usage) } }
  return { seq, at: time(at), body: body as RunEventView['body'] }
}

function usageView(usage: RunUsage): UsageOfRunView {
  const models = Object.entries(usage.models).map(([name, one]) => [
    name,
    { ...one, costUsd: one.costUsd ?? null },
  ])
  return { ...usage, costUsd: usage.costUsd ?? null, models: Object.fromEntries(models) }
}

function time(at: number): string {
  return new Date(at).toISOString()
}
