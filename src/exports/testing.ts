/** Fakes, and the contract that every provider passes. */

export {
  type ContractCase,
  ContractContext,
  type ContractWorld,
  runCommand,
  runContractCase,
} from '../testing/contract-context.ts'
export { FakeClock } from '../testing/fake-clock.ts'
export { FakeGuest, FakeInside } from '../testing/fake-guest.ts'
export { FakeProvider, type FakeProviderOptions, type FaultyCall } from '../testing/fake-provider.ts'
export { PROVIDER_CONTRACT } from '../testing/provider-contract.ts'
export { SeededRandom } from '../testing/seeded-random.ts'
