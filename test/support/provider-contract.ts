// The provider contract on real sandboxes.

import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '../../src/core/call.ts'
import { newSandboxId, newSnapshotId, parseOwner } from '../../src/core/id.ts'
import type { Provider, RootRef } from '../../src/core/provider.ts'
import { crun } from '../../src/providers/crun/provider.ts'
import { gvisor } from '../../src/providers/gvisor/provider.ts'
import type { Podhost } from '../../src/providers/local/podhost.ts'
import { type ContractWorld, runContractCase } from '../../src/testing/contract-context.ts'
import { PROVIDER_CONTRACT } from '../../src/testing/provider-contract.ts'
import { systemRandom } from '../../src/util/random.ts'

const CALL: CallOptions = { timeoutMs: 30_000 }

/** A provider with nothing on it; `close` ends what belongs to it and removes its files. */
export interface TestProvider {
  readonly provider: Provider
  /** The smallest root that it has. */
  readonly root: RootRef
  /** How long after a deadline a sandbox may still be there. */
  readonly graceMs: number
  close(): Promise<void>
}

export function describeContract(title: string, open: () => Promise<TestProvider>): void {
  describe(title, () => {
    let opened: Promise<TestProvider> | undefined
    const world = async (): Promise<ContractWorld> => {
      opened ??= open()
      const { provider, root, graceMs } = await opened
      return {
        provider,
        root,
        owner: parseOwner('contract-one'),
        otherOwner: parseOwner('contract-two'),
        newId: () => newSandboxId(systemRandom),
        newSnapshotId: () => newSnapshotId(systemRandom),
        now: () => Date.now(),
        pass: (ms) => sleep(ms),
        graceMs,
      }
    }

    after(async () => {
      if (opened) await (await opened).close()
    })

    for (const one of PROVIDER_CONTRACT) {
      test(one.name, { timeout: 60_000 }, async (t) => {
        const reason = await runContractCase(one, await world())
        if (reason !== undefined) t.skip(reason)
      })
    }
  })
}

interface OwnPodhost {
  readonly podhost: Podhost
  readonly exchange: string
  close(): Promise<void>
}

/** crun on a podhost with a state directory of its own. */
export const crunOn = (o: OwnPodhost): TestProvider => onPodhost(crun(o.podhost, o.exchange), o)

/** gVisor on a podhost with a state directory of its own. */
export const gvisorOn = (o: OwnPodhost): TestProvider => onPodhost(gvisor(o.podhost, o.exchange), o)

export function onPodhost(provider: Provider, o: OwnPodhost): TestProvider {
  const { podhost } = o
  return {
    provider,
    root: provider.host?.root() ?? {},
    // podhost ends a sandbox two seconds after its deadline, where the guest did not.
    graceMs: 6000,
    async close() {
      await podhost.call('shutdown', {}, CALL)
      await podhost.close()
      await o.close()
    },
  }
}
