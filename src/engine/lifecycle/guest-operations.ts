/** Access to the inside of sandboxes: connections, services that wait for the project, and measurements. */
import type { GuestStats } from '../../core/guest.ts'
import type { SandboxId } from '../../core/id.ts'
import type { NetCounts } from '../../core/network.ts'
import type { Principal } from '../../core/principal.ts'
import type { HostStats } from '../../core/provider.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Spec } from '../../core/spec.ts'
import { CALL } from '../call.ts'
import type { Context, GuestConnection } from '../context.ts'
import { findSandbox, getSandbox } from '../find-sandbox.ts'
import { netCounts } from '../network/network-operations.ts'
import { unusableSandbox } from './require-sandbox.ts'
import { startProjectServices } from './services.ts'
import { connectOrWake } from './wake.ts'

export class GuestOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** The connection to a running sandbox. Reads no database: every exec passes here. */
  connection(ref: string, who: Principal): GuestConnection {
    const known = who.isAdmin ? this.#ctx.connections.get(ref as SandboxId) : undefined
    if (known) return known
    const sandbox = findSandbox(this.#ctx, ref, who)
    const found = sandbox && this.#ctx.connections.get(sandbox.id)
    if (found) return found
    if (sandbox?.state === 'running') this.#ctx.providers.of(sandbox)
    throw unusableSandbox(ref, sandbox)
  }

  /**
   * The connection to a sandbox, which is woken first if its spec allows that and the caller does not forbid
   * it.
   */
  async wake(
    ref: string,
    who: Principal,
    o: { readonly wake?: boolean | undefined } = {},
  ): Promise<GuestConnection> {
    return connectOrWake(this.#ctx, getSandbox(this.#ctx, ref, who).id, () => o.wake ?? true)
  }

  /** Starts the services that need the project's files, and runs the command of every start. */
  async startProjectServices(ref: string, who: Principal): Promise<Sandbox> {
    const { id } = getSandbox(this.#ctx, ref, who)
    await startProjectServices(this.#ctx, id)
    return getSandbox(this.#ctx, id, who)
  }

  /** A paused or stopped sandbox is not woken: its guest counts nothing. */
  async stats(ref: string, who: Principal): Promise<HostStats & GuestStats & { network: NetCounts }> {
    const { id, provider, spec, state } = getSandbox(this.#ctx, ref, who)
    const isAsleep = state === 'paused' || state === 'stopped'
    const [inside, host, network] = await Promise.all([
      isAsleep ? NO_GUEST : this.connection(id, who).guest.stats(CALL),
      this.#ctx.providers.of({ provider }).metering?.stats(id, CALL) ?? unmetered(spec),
      netCounts(this.#ctx, id),
    ])
    // The host's figures are the accurate ones; without cgroups there are none, and the guest's own are used.
    return {
      ...inside,
      ...host,
      network,
      cpuMs: host.cpuMs || inside.cpuMs,
      memBytes: host.memBytes || inside.memBytes,
      pids: host.pids || inside.pids,
    }
  }
}

const NO_GUEST: GuestStats = { cpuMs: 0, memBytes: 0, pids: 0, processes: 0, uptimeMs: 0, idleForMs: 0 }

/** For providers that measure nothing from outside: the limits are what the spec asked for. */
function unmetered({ resources }: Spec): HostStats {
  const MIB = 1024 * 1024
  return {
    cpuMs: 0,
    memBytes: 0,
    memPeakBytes: 0,
    memLimitBytes: resources.memoryMib * MIB,
    pids: 0,
    pidsLimit: resources.pids,
    oomKills: 0,
    diskBytes: 0,
  }
}
