/** What programs that use AgentPod import. */
export { AgentPod, type PrepareOptions } from '../client/client.ts'
export type { PlaceOptions } from '../client/default-place.ts'
export type { EnvironmentDockerfileOptions } from '../client/dockerfile/environment-dockerfile.ts'
export {
  type BuiltEnvironment,
  EnvironmentBuilder as Environment,
  type EnvironmentBuildOptions,
  type EnvironmentRunOptions,
  type EnvironmentStartOptions,
} from '../client/environment-builder.ts'
export { type GroupInfo, type GroupOptions, Groups, type MemberSnapshotInfo } from '../client/groups.ts'
export {
  type FeatureFiles,
  ImageClient,
  type ImageTransferOptions,
  type PullImageOptions,
  type StoredImageInfo,
} from '../client/images.ts'
export {
  type ExecOptions,
  type Exit,
  type Output,
  type OutputCallbacks,
  Process,
  type ProcessResult,
} from '../client/process.ts'
export { Run, type RunEventInfo, type RunInfo, type RunOptions, Runs } from '../client/runs.ts'
export {
  type CreateOptions,
  type FileInfo,
  type ForkOptions,
  type ListOptions,
  type PauseOptions,
  type ProcessInfo,
  Sandbox,
  type SandboxInfo,
  type WakeOptions,
} from '../client/sandbox.ts'
export { type Secret, type SecretOptions, Secrets } from '../client/secrets.ts'
export {
  type Snapshot,
  type SnapshotListOptions,
  type SnapshotOptions,
  Snapshots,
} from '../client/snapshots.ts'
export type { TransportOptions } from '../client/transport.ts'
export { type VolumeInfo, type VolumeOptions, Volumes } from '../client/volumes.ts'
export type { FileChange, WatchOptions } from '../client/watch.ts'
export { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
export type { State } from '../core/lifecycle.ts'
export type { WhenOver } from '../core/spec.ts'
