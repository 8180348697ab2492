/** An egress process that records its instructions and passes nothing. */
import type { NetCounts } from '../../src/core/network.ts'
import type { LinkSpec } from '../../src/egress/control/link-spec.ts'
import type { EgressLinks } from '../../src/engine/network/network-parts.ts'

export class FakeEgress implements EgressLinks {
  readonly links = new Map<string, LinkSpec>()
  /** Every call, in order. */
  readonly calls: string[] = []

  open(spec: LinkSpec): void {
    this.calls.push(`open ${spec.sandbox}`)
    this.links.set(spec.sandbox, spec)
  }

  close(sandbox: string): void {
    this.calls.push(`close ${sandbox}`)
    this.links.delete(sandbox)
  }

  async counts(sandbox: string): Promise<NetCounts | undefined> {
    if (!this.links.has(sandbox)) return undefined
    return { connections: 3, open: 1, allowed: 2, denied: 1, failed: 0, bytesIn: 10, bytesOut: 20 }
  }
}
