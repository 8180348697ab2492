/** Completions after a command: agents, runs of this repository, sandboxes. Starts no server. */
import { AGENTS } from '../agents/agents.ts'
import type { AgentPod } from '../client/client.ts'
import { projectKey } from '../workbench/project/project-state.ts'
import { repositoryHere } from '../workbench/run/find-run.ts'
import { labelOf } from '../workbench/run/run-label.ts'
import type { CommandContext } from './command.ts'

const RUNS = 'runs follow send answer attach cancel diff apply merge branch compare'.split(' ')
const SANDBOXES =
  'shell exec cp logs stats net allow policy port pause resume stop start destroy extend fork snapshot'.split(
    ' ',
  )

type Kind = 'agents' | 'runs' | 'sandboxes'

/** Undefined for a command that takes none of them. */
export function kindOf(command: string): Kind | undefined {
  if (command === 'run') return 'agents'
  if (RUNS.includes(command)) return 'runs'
  return SANDBOXES.includes(command) ? 'sandboxes' : undefined
}

export async function completionWords(ctx: CommandContext, command: string): Promise<readonly string[]> {
  const kind = kindOf(command)
  if (kind === undefined) return []
  if (kind === 'agents') return AGENTS.map(({ name }) => name)
  try {
    const pod = await ctx.client({ start: false })
    const words = await (kind === 'runs' ? runWords(ctx, pod) : sandboxWords(pod))
    // SECURITY: bash expands completions, so words with special characters are left out.
    return words.filter((word) => /^[\w.:@+-]+$/.test(word))
  } catch {
    // Without a server there is nothing to complete, and a prompt is no place for an error.
    return []
  }
}

async function runWords(ctx: CommandContext, pod: AgentPod): Promise<string[]> {
  const repo = await repositoryHere(ctx)
  const runs = await pod.runs.list(repo ? { project: projectKey(repo) } : {})
  return [...new Set(runs.flatMap(({ info }) => [labelOf(info), info.id]))]
}

async function sandboxWords(pod: AgentPod): Promise<string[]> {
  return (await pod.list()).map(({ id, name }) => name ?? id)
}
