/** Fakes, and the contract that every provider passes. */
export { FakeClock } from '../testing/fake-clock.ts'
export { FakeGuest, FakeInside } from '../testing/fake-guest.ts'
export { FakeProvider, type FakeProviderOptions, type FaultyCall } from '../testing/fake-provider.ts'
export {
  type ContractCase,
  ContractContext,
  type ContractWorld,
  PROVIDER_CONTRACT,
  runCommand,
  runContractCase,
} from '../testing/provider-contract.ts'
export { SeededRandom } from '../testing/seeded-random.ts'
