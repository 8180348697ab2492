/** What programs import to put agents and commands to work on a project, and to take their results. */
export type { ChangedFile } from '../sync/git/plumbing/diff.ts'
export { openRepository, type Repository } from '../sync/git/plumbing/repository.ts'
export {
  type Notice,
  nobody,
  type Person,
  type QuestionKind,
  type Questions,
  type Work,
  type WorkProgress,
} from '../workbench/ask.ts'
export { type CopyRequest, openCopy, repositoryToCopy } from '../workbench/copy/open-copy.ts'
export type {
  BranchChanges,
  BringBackOptions,
  CopyChanges,
  ProjectCopy,
} from '../workbench/copy/project-copy.ts'
export type { SandboxRequest } from '../workbench/environment/sandbox-request.ts'
export type { NetworkOptions } from '../workbench/network/network-options.ts'
export { type AppliedResult, type ApplyResultOptions, applyResult } from '../workbench/result/apply-result.ts'
export type { GateChoice } from '../workbench/result/choose-gated.ts'
export { type MergedRun, type MergeRunOptions, mergeRun } from '../workbench/result/merge-run.ts'
export { openTarget, type ResultTarget, resultTarget } from '../workbench/result/result-target.ts'
export { type BroughtBack, makeRunBranch, type RunBranchOptions } from '../workbench/result/run-branch.ts'
export type { AgentRequest } from '../workbench/run/agent-request.ts'
export { type Compared, compareRuns, type TestPlan, testPlan } from '../workbench/run/compare-runs.ts'
export { type RunFinder, runFinder } from '../workbench/run/find-run.ts'
export { type FollowRunsOptions, followRuns } from '../workbench/run/follow-runs.ts'
export { type StartedRuns, startAgents } from '../workbench/run/start-agents.ts'
export { openWorkbench, type Workbench, type WorkbenchOptions } from '../workbench/workbench.ts'
