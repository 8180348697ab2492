/** What programs that use AgentPod import. */
export { AgentPod } from '../client/client.ts'
export type { PlaceOptions } from '../client/default-place.ts'
export {
  type ExecOptions,
  type Exit,
  type Output,
  type OutputCallbacks,
  Process,
  type ProcessResult,
} from '../client/process.ts'
export {
  type CreateOptions,
  type FileInfo,
  type ListOptions,
  type ProcessInfo,
  Sandbox,
} from '../client/sandbox.ts'
export type { TransportOptions } from '../client/transport.ts'
export type { FileChange, WatchOptions } from '../client/watch.ts'
export { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
