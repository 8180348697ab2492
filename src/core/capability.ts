/** What a provider can do, in levels. Each is probed, with the reason if it is not the best. */

/**
 * How a sandbox is separated from its host, weakest first: a shared kernel, a kernel in user space, its own
 * kernel.
 */
export const ISOLATIONS = ['container', 'gvisor', 'vm'] as const
export type Isolation = (typeof ISOLATIONS)[number]

export function isAtLeast(level: Isolation, lowest: Isolation): boolean {
  return ISOLATIONS.indexOf(level) >= ISOLATIONS.indexOf(lowest)
}

/** The strongest of these levels; undefined if none is given. */
export function strongestIsolation(...levels: readonly (Isolation | undefined)[]): Isolation | undefined {
  return levels.reduce((best, level) => {
    if (best === undefined || level === undefined) return best ?? level
    return isAtLeast(best, level) ? best : level
  }, undefined)
}

export interface Capabilities {
  readonly isolation: Isolation
  readonly limits: 'none' | 'soft' | 'enforced'
  /**
   * `signals`: processes are stopped by SIGSTOP, which a program can notice. `freeze`: by the kernel,
   * unnoticed. `memory`: written to disk.
   */
  readonly pause: 'none' | 'signals' | 'freeze' | 'memory'
  /** Whether a sandbox can end its processes, keep its files and run again on them. */
  readonly stop: 'none' | 'files'
  readonly snapshot: 'none' | 'workspace' | 'disk' | 'memory'
  /**
   * How connections reach the egress process: redirected, through the proxy only, or not at all. `native`:
   * the rules of the provider apply instead, and secrets are refused.
   */
  readonly network: 'none' | 'native' | 'proxy' | 'transparent'
  /** Who measures a sandbox: the provider from outside, or only its guest. */
  readonly metering: 'none' | 'host'
  /** Who ends a sandbox at its deadline while no server runs: the guest only, or the provider too. */
  readonly deadlines: 'guest' | 'provider'
  /** Whether file-system layers can be imported, for the `debian` base and for archives. */
  readonly layers: boolean
  /** Whether container images can be the base. */
  readonly images: boolean
  /** Whether the tools of this machine can be the base. */
  readonly host: boolean
  /** Whether sandboxes can mount volumes, which outlive them. */
  readonly volumes: boolean
  /** Whether sandboxes can mount other roots, read-only, and temporary file systems. */
  readonly rootMounts: boolean
  /** Whether a sandbox can run a Docker engine inside. */
  readonly docker: boolean
  readonly notes: readonly string[]
}

/** One check of `doctor`, with advice. */
export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly required: boolean
  readonly detail: string
  readonly hint?: string | undefined
}
