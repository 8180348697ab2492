/** What a provider can do, in levels, each found by probing and each with the reason when it is not the best. */
export interface Capabilities {
  readonly isolation: 'none' | 'namespace' | 'kernel' | 'vm'
  readonly limits: 'none' | 'soft' | 'enforced'
  /** `signals`: processes are stopped by SIGSTOP, which a program can see; `freeze`: by the kernel, unseen; `memory`: written to disk. */
  readonly pause: 'none' | 'signals' | 'freeze' | 'memory'
  readonly snapshot: 'none' | 'workspace' | 'disk' | 'memory'
  /** How connections get to the way out: redirected, through the proxy alone, or not at all. */
  readonly network: 'none' | 'proxy' | 'transparent'
  readonly layers: boolean
  /** Writes below /usr of the `host` base go to the sandbox's own upper. */
  readonly hostWritable: boolean
  readonly rootless: boolean
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
