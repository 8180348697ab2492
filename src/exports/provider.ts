/** What the author of a provider imports. */
export type { CallOptions, GuestCall } from '../core/call.ts'
export { type Capabilities, type Check, ISOLATIONS, type Isolation, isAtLeast } from '../core/capability.ts'
export { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
export type {
  Guest,
  GuestInit,
  GuestLease,
  GuestLeases,
  GuestRequest,
  GuestResponse,
  GuestStats,
  GuestTrust,
} from '../core/guest.ts'
export type {
  ArchiveCall,
  FileCall,
  FileChange,
  FileContent,
  FileEntry,
  GuestArchive,
  GuestFiles,
  WatchOptions,
  WriteOptions,
} from '../core/guest-files.ts'
export type {
  GuestCommand,
  GuestProcesses,
  OutputPlace,
  ProcessEvent,
  ProcessExit,
  ProcessInfo,
  ProcessRef,
  TerminalSize,
} from '../core/guest-process.ts'
export {
  type OwnerLabel,
  parseOwner,
  parseSandboxId,
  parseSnapshotId,
  parseVolumeId,
  type SandboxId,
  type SnapshotId,
  type VolumeId,
} from '../core/id.ts'
export type { NetworkLevel } from '../core/network.ts'
export type {
  ChangesSince,
  Created,
  CreatePlan,
  Deadlines,
  Egress,
  EgressDoor,
  Handle,
  HostBase,
  HostStats,
  Image,
  Images,
  Layers,
  ListedSandbox,
  Metering,
  Mount,
  Observed,
  Packed,
  Pausing,
  Provider,
  RootRef,
  SandboxExit,
  Snapshots,
  Stopping,
  StoredSnapshot,
  StoredVolume,
  VolumeStats,
  Volumes,
} from '../core/provider.ts'
export {
  LIMITED,
  type Limited,
  type LimitLevel,
  type LimitLevels,
  type Resources,
} from '../core/resources.ts'
export type { WhenOver } from '../core/spec.ts'
export { poddGuest } from '../guest/podd/client.ts'
export { multiplexedStreams, type PoddDoor, type PoddStreams, socketStreams } from '../guest/podd/streams.ts'
