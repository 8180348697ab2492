/** What a provider can do, in levels, each found by probing and each with the reason when it is not the best. */

/** How a sandbox is kept apart from its host, weakest first: a shared kernel, a kernel in user space, a kernel of its own. */
export const ISOLATIONS = ['container', 'gvisor', 'vm'] as const
export type Isolation = (typeof ISOLATIONS)[number]

/** Whether a level is at least another. */
export function isAtLeast(level: Isolation, lowest: Isolation): boolean {
  return ISOLATIONS.indexOf(level) >= ISOLATIONS.indexOf(lowest)
}

export interface Capabilities {
  readonly isolation: Isolation
  readonly limits: 'none' | 'soft' | 'enforced'
  /** `signals`: processes are stopped by SIGSTOP, which a program can see; `freeze`: by the kernel, unseen; `memory`: written to disk. */
  readonly pause: 'none' | 'signals' | 'freeze' | 'memory'
  /** Whether a sandbox can end its processes, keep its files and run again on them. */
  readonly stop: 'none' | 'files'
  readonly snapshot: 'none' | 'workspace' | 'disk' | 'memory'
  /**
   * How connections get to the way out: redirected, through the proxy alone, or not at all. `native`: the provider's own rules hold,
   * and secrets are refused.
   */
  readonly network: 'none' | 'native' | 'proxy' | 'transparent'
  /** Who measures a sandbox: the provider from outside, or nobody but its guest. */
  readonly metering: 'none' | 'host'
  /** Who ends a sandbox at its deadline while no server runs: the guest alone, or the provider too. */
  readonly deadlines: 'guest' | 'provider'
  /** Whether file-system layers can be brought, for the `debian` base and for archives. */
  readonly layers: boolean
  /** Whether container images can be the base. */
  readonly images: boolean
  /** Whether the tools of this machine can be the base. */
  readonly host: boolean
  readonly notes: readonly string[]
}

/** One thing `doctor` looked at, and what to do about it. */
export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly required: boolean
  readonly detail: string
  readonly hint?: string | undefined
}
