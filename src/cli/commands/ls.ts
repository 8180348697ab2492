import type { SandboxView } from '../../api/schema/sandbox.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parsePairs } from '../args/values.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'
import { span } from '../output/units.ts'

const RUN_LABEL = 'agentpod/run'

export const command: Command = {
  usage: 'agentpod ls [--all] [--label key=value] [--json]',
  examples: ['agentpod ls', 'agentpod ls --label team=web --json'],
  options: {
    all: { short: 'a', help: 'destroyed sandboxes too' },
    label: { value: 'KEY=VALUE', help: 'only sandboxes with this label', repeat: true },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 0 },
  async run({ client, terminal }, parsed) {
    const labels = parsePairs(parsed.values('label'), 'label')
    const sandboxes = await (await client()).list({ labels, all: parsed.has('all') })
    if (parsed.has('json')) {
      terminal.out(JSON.stringify(sandboxes, null, 2))
    } else if (sandboxes.length === 0) {
      terminal.say('no sandboxes; `agentpod create` makes one')
    } else {
      for (const line of table([
        ['ID', 'NAME', 'STATE', 'PROVIDER', 'ISOLATION', 'BASE', 'AGE', 'TIME LEFT', 'LABELS'],
        ...sandboxes.map(row),
      ]))
        terminal.out(line)
    }
    return 0
  },
}

function row(s: SandboxView): string[] {
  const now = systemClock.now()
  return [
    s.id,
    s.name ?? runOf(s),
    s.ending && s.state !== 'running' ? `${s.state} (${showHidden(s.ending.message)})` : s.state,
    s.provider,
    s.isolation,
    s.base,
    span(now - Date.parse(s.createdAt)),
    timeLeft(s, now),
    Object.entries(s.labels)
      .map(([key, value]) => `${key}=${value}`)
      .join(',') || '-',
  ]
}

/** A sandbox that is kept for a run shows the run's name, for `send` and `attach`. */
function runOf({ labels }: SandboxView): string {
  const run = labels[RUN_LABEL]
  return run === undefined ? '-' : `(run ${showHidden(run)})`
}

const THEN = { destroy: '', pause: ', then paused', stop: ', then stopped' } as const

/** Time does not count for paused and stopped sandboxes. */
function timeLeft(s: SandboxView, now: number): string {
  if (s.endedAt !== null || s.state === 'paused' || s.state === 'stopped') return '-'
  return `${span(Date.parse(s.deadlineAt) - now)}${THEN[s.lifetime.whenOver]}`
}
