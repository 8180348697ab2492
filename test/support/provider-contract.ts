// The provider contract on real sandboxes, for whoever has a podhost to give.

import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '../../src/core/call.ts'
import { newSandboxId, newSnapshotId, parseOwner } from '../../src/core/id.ts'
import type { Provider } from '../../src/core/provider.ts'
import { crun } from '../../src/providers/crun/provider.ts'
import type { Podhost } from '../../src/providers/local/podhost.ts'
import { type ContractWorld, runContractCase } from '../../src/testing/contract-context.ts'
import { PROVIDER_CONTRACT } from '../../src/testing/provider-contract.ts'
import { systemRandom } from '../../src/util/random.ts'

const CALL: CallOptions = { timeoutMs: 30_000 }

/** A podhost with a state directory of its own; `close` ends it and removes the directory. */
export interface TestPodhost {
  readonly podhost: Podhost
  close(): Promise<void>
}

export function describeContract(name: string, open: () => Promise<TestPodhost>): void {
  describe(`the provider contract on ${name}`, () => {
    let opened: Promise<TestPodhost> | undefined
    let provider: Provider | undefined
    const world = async (): Promise<ContractWorld> => {
      opened ??= open()
      const { podhost } = await opened
      provider ??= crun(podhost)
      return {
        provider,
        owner: parseOwner('contract-one'),
        otherOwner: parseOwner('contract-two'),
        newId: () => newSandboxId(systemRandom),
        newSnapshotId: () => newSnapshotId(systemRandom),
        now: () => Date.now(),
        pass: (ms) => sleep(ms),
        // podhost ends a sandbox two seconds after its deadline, where the guest did not.
        graceMs: 6000,
      }
    }

    after(async () => {
      if (!opened) return
      const { podhost, close } = await opened
      await podhost.call('shutdown', {}, CALL)
      await podhost.close()
      await close()
    })

    for (const one of PROVIDER_CONTRACT) {
      test(one.name, { timeout: 60_000 }, async (t) => {
        const reason = await runContractCase(one, await world())
        if (reason !== undefined) t.skip(reason)
      })
    }
  })
}
