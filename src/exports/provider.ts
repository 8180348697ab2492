/** What the author of a provider imports. */
export type { CallOptions } from '../core/call.ts'
export { type Capabilities, type Check, ISOLATIONS, type Isolation } from '../core/capability.ts'
export { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
export type { Guest, GuestInit, GuestLease, GuestRequest, GuestResponse, GuestUsage } from '../core/guest.ts'
export {
  type OwnerLabel,
  parseOwner,
  parseSandboxId,
  parseSnapshotId,
  type SandboxId,
  type SnapshotId,
} from '../core/id.ts'
export type {
  Created,
  CreatePlan,
  Deadlines,
  Egress,
  EgressDoor,
  Exit,
  Handle,
  HostBase,
  HostStats,
  Image,
  Images,
  Kept,
  Layers,
  Listed,
  Metering,
  Observed,
  Packed,
  Pausing,
  Provider,
  RootRef,
  Snapshots,
  Stopping,
} from '../core/provider.ts'
export {
  LIMITED,
  type Limited,
  type LimitLevel,
  type LimitLevels,
  type Resources,
} from '../core/resources.ts'
export type { WhenOver } from '../core/spec.ts'
