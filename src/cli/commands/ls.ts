import type { SandboxView } from '../../api/schema/sandbox.ts'
import type { AgentPod } from '../../client/client.ts'
import { readKeptLimit } from '../../config/config-files.ts'
import { RUN_LABEL } from '../../core/run.ts'
import { DEFAULT_KEPT } from '../../core/spec.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parsePairs } from '../args/values.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'
import { size, span } from '../output/units.ts'
import { currentContext } from '../server/contexts.ts'

/** How many sizes are asked for. */
const MOST_MEASURED = 100

export const command: Command = {
  usage: 'agentpod ls [--all] [--label key=value] [--json]',
  examples: ['agentpod ls', 'agentpod ls --label team=web --json'],
  options: {
    all: { short: 'a', help: 'destroyed sandboxes too' },
    label: { value: 'KEY=VALUE', help: 'only sandboxes with this label', repeat: true },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 0 },
  async run({ client, terminal, home, env }, parsed) {
    const labels = parsePairs(parsed.values('label'), 'label')
    const pod = await client()
    const sandboxes = await pod.list({ labels, all: parsed.has('all') })
    if (parsed.has('json')) {
      terminal.out(JSON.stringify(sandboxes, null, 2))
    } else if (sandboxes.length === 0) {
      terminal.say('no sandboxes; `agentpod create` makes one')
    } else {
      const sizes = await keptSizes(pod, sandboxes)
      for (const line of table([
        ['ID', 'NAME', 'STATE', 'PROVIDER', 'ISOLATION', 'BASE', 'AGE', 'SIZE', 'NEXT', 'LABELS'],
        ...sandboxes.map((one) => row(one, sizes.get(one.id))),
      ]))
        terminal.out(line)
      const kept = sandboxes.filter(
        ({ state, labels: own }) => state === 'stopped' && !Object.hasOwn(own, RUN_LABEL),
      )
      // A list of some sandboxes says nothing about all of them, and another server has limits of its own.
      const isWhole = Object.keys(labels).length === 0 && currentContext(home, env) === undefined
      if (kept.length > 0 && isWhole)
        terminal.say(terminal.dim(keptLine(kept.length, readKeptLimit(home.root) ?? DEFAULT_KEPT)))
    }
    return 0
  },
}

function keptLine(count: number, limit: number): string {
  return `${count} stopped ${count === 1 ? 'sandbox is' : 'sandboxes are'} kept, of at most ${limit} (\`[sandboxes] kept\` in config.toml)`
}

/** Paused and stopped sandboxes use no processor, but space. */
async function keptSizes(
  pod: AgentPod,
  sandboxes: readonly SandboxView[],
): Promise<ReadonlyMap<string, number>> {
  const kept = sandboxes.filter(isKept).slice(0, MOST_MEASURED)
  const sizes = await Promise.all(
    kept.map(async ({ id }) => {
      // A size that is not known is no reason to show nothing.
      const stats = await pod
        .get(id)
        .then((one) => one.stats())
        .catch(() => undefined)
      return [id, stats?.diskBytes] as const
    }),
  )
  return new Map(sizes.flatMap(([id, bytes]) => (bytes === undefined ? [] : [[id, bytes]])))
}

function isKept({ state }: SandboxView): boolean {
  return state === 'paused' || state === 'stopped'
}

function row(s: SandboxView, sizeBytes: number | undefined): string[] {
  const now = systemClock.now()
  return [
    s.id,
    s.name ?? runOf(s),
    stateOf(s),
    s.provider,
    s.isolation,
    s.base,
    span(now - Date.parse(s.createdAt)),
    sizeBytes === undefined ? '-' : size(sizeBytes),
    nextOf(s, now),
    Object.entries(s.labels)
      .map(([key, value]) => `${key}=${value}`)
      .join(',') || '-',
  ]
}

function stateOf({ state, ending, savedBytes }: SandboxView): string {
  if (savedBytes !== undefined) return `${state} (${size(savedBytes)} on disk)`
  return ending && state !== 'running' ? `${state} (${showHidden(ending.message)})` : state
}

/** A sandbox that is kept for a run shows the run's name, for `send` and `attach`. */
function runOf({ labels }: SandboxView): string {
  const run = labels[RUN_LABEL]
  return run === undefined ? '-' : `(run ${showHidden(run)})`
}

const THEN = { destroy: 'destroyed', pause: 'paused', stop: 'stopped' } as const

/** What will happen to it, and when. Time does not count for paused and stopped sandboxes. */
function nextOf(s: SandboxView, now: number): string {
  if (s.endedAt !== null) return '-'
  const { whenOver, whenIdle = whenOver, idleMs, autoResume } = s.lifetime
  if (isKept(s)) {
    const verb = s.state === 'paused' ? 'resume' : 'start'
    return autoResume ? `kept; a call ${verb}s it` : `kept; agentpod ${verb}`
  }
  const end = `${THEN[whenOver]} in ${span(Date.parse(s.deadlineAt) - now)}`
  return idleMs === 0 ? end : `${THEN[whenIdle]} after ${span(idleMs)} idle, ${end}`
}
