/** What the author of a provider imports. */
export type { CallOptions } from '../core/call.ts'
export type { Capabilities, Check } from '../core/capability.ts'
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
  Exit,
  Handle,
  HostStats,
  Kept,
  Layers,
  Listed,
  Observed,
  Packed,
  Provider,
  RootPlan,
  Snapshots,
} from '../core/provider.ts'
export {
  LIMITED,
  type Limited,
  type LimitLevel,
  type LimitLevels,
  type Resources,
} from '../core/resources.ts'
export type { WhenOver } from '../core/spec.ts'
