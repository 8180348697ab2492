/** The current usage of a sandbox as one sample of E2B's metrics. The CPU share comes from two readings. */
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'
import { type Clock, sleep } from '../../util/clock.ts'
import { diskMib } from './view.ts'

const APART_MS = 200
const MIB = 1024 * 1024

export interface Metric {
  readonly timestamp: string
  readonly timestampUnix: number
  readonly cpuUsedPct: number
  readonly cpuCount: number
  readonly memUsed: number
  readonly memTotal: number
  readonly memCache: number
  readonly diskUsed: number
  readonly diskTotal: number
}

type Stats = Awaited<ReturnType<Engine['guests']['stats']>>

export async function takeMetric(
  { engine, clock }: { engine: Engine; clock: Clock },
  sandbox: Sandbox,
  who: Principal,
): Promise<Metric> {
  const startedAt = clock.now()
  const first = await engine.guests.stats(sandbox.id, who)
  await sleep(clock, APART_MS)
  const second = await engine.guests.stats(sandbox.id, who)
  return metricOf(sandbox, { first, second, startedAt, now: clock.now() })
}

export function metricOf(
  sandbox: Sandbox,
  { first, second, startedAt, now }: { first: Stats; second: Stats; startedAt: number; now: number },
): Metric {
  const { cpus, memoryMib } = sandbox.spec.resources
  const share = ((second.cpuMs - first.cpuMs) / Math.max(1, now - startedAt) / cpus) * 100
  return {
    timestamp: new Date(now).toISOString(),
    timestampUnix: Math.floor(now / 1000),
    cpuUsedPct: Math.round(Math.min(100, Math.max(0, share)) * 100) / 100,
    cpuCount: Math.max(1, Math.round(cpus)),
    memUsed: second.memBytes,
    memTotal: second.memLimitBytes || memoryMib * MIB,
    memCache: 0,
    diskUsed: second.diskBytes,
    diskTotal: diskMib(sandbox) * MIB,
  }
}
