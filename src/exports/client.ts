/** What programs that use AgentPod import. */
export { AgentPod, type CreateOptions } from '../client/client.ts'
export { type ExecOptions, type Exit, type Output, Process, type ProcessResult } from '../client/process.ts'
export { type FileInfo, type ProcessInfo, Sandbox } from '../client/sandbox.ts'
export type { TransportOptions } from '../client/transport.ts'
export { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
