/** The resource usage of a container, as the daemon reports it from cgroups v1 or v2. */
import type { CallOptions } from '../../../core/call.ts'
import type { HostStats } from '../../../core/provider.ts'
import { type Clock, systemClock } from '../../../util/clock.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import { type Container, STATS } from '../daemon/responses.ts'
import type { Containers } from './containers.ts'

const NANOSECONDS_PER_MS = 1e6
/** The daemon walks all files of a container to compute their size. */
const DISK_COUNTED_MS = 60_000
const MOST_COUNTED = 1000

export class ContainerStats {
  readonly #daemon: Daemon
  readonly #containers: Containers
  readonly #clock: Clock = systemClock
  readonly #counted = new Map<string, { readonly at: number; readonly bytes: number }>()

  constructor(daemon: Daemon, containers: Containers) {
    this.#daemon = daemon
    this.#containers = containers
  }

  async of(container: Container, o: CallOptions): Promise<HostStats> {
    const query = { stream: '0', 'one-shot': '1' }
    const path = `/containers/${container.Id}/stats`
    const { cpu_stats, memory_stats, pids_stats } = parseAnswer(
      STATS,
      await this.#daemon.json({ method: 'GET', path, query }, o),
    )
    const usage = memory_stats?.usage ?? 0
    // Like the docker command: inactive file cache does not count, since the kernel can reclaim it
    // immediately.
    const inactive =
      memory_stats?.stats?.['total_inactive_file'] ?? memory_stats?.stats?.['inactive_file'] ?? 0
    return {
      cpuMs: Math.round((cpu_stats?.cpu_usage?.total_usage ?? 0) / NANOSECONDS_PER_MS),
      memBytes: Math.max(0, usage - inactive),
      memPeakBytes: memory_stats?.max_usage ?? 0,
      memLimitBytes: memory_stats?.limit ?? 0,
      pids: pids_stats?.current ?? 0,
      pidsLimit: pids_stats?.limit ?? 0,
      oomKills: container.State.OOMKilled ? 1 : 0,
      diskBytes: await this.#disk(container.Id, o),
    }
  }

  async #disk(id: string, o: CallOptions): Promise<number> {
    const known = this.#counted.get(id)
    if (known && this.#clock.now() - known.at < DISK_COUNTED_MS) return known.bytes
    const bytes = (await this.#containers.look(id, o, true))?.SizeRw ?? 0
    if (this.#counted.size >= MOST_COUNTED) this.#counted.clear()
    this.#counted.set(id, { at: this.#clock.now(), bytes })
    return bytes
  }
}
