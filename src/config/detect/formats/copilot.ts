/** The workflow that prepares a machine for GitHub's agent. */
import type { FileTree } from '../../file-tree.ts'
import { shortQuote } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { AGENT_JOB, AGENT_WORKFLOW, agentWorkflow } from '../project-files/workflows.ts'
import { type FormatFile, newFormat } from './format-file.ts'
import { addProblem } from './source-file.ts'

/** Actions that need nothing from us, or that the choice of versions has used. */
const KNOWN_ACTION =
  /^(?:actions\/(?:checkout|cache|setup-\w+)|(?:[\w.-]+)\/(?:setup-[\w-]+|action-setup|rust-toolchain|toolchain|rust-cache|gradle-build-action|setup-gradle)|swatinem\/rust-cache)(?:\/\w+)?$/

/** The versions, services and packages of the job are found where those of all workflows are. */
export function readCopilot(tree: FileTree): readonly FormatFile[] {
  const workflow = agentWorkflow(tree)
  if (!workflow) return []
  const format = newFormat(AGENT_WORKFLOW, 'setup-steps')
  if (workflow.problem !== undefined) {
    addProblem(format, workflow.file, workflow.problem)
    return [format]
  }
  const [job] = workflow.jobs
  if (!job) format.notes.push(`${AGENT_WORKFLOW} has no job named ${AGENT_JOB}, so it is not used`)
  for (const step of job?.steps ?? []) {
    const place = `${AGENT_WORKFLOW}:${step.line('run') ?? step.line('uses') ?? 1}`
    if (step.action !== '' && !KNOWN_ACTION.test(step.action))
      format.notes.push(`${place}: ${shortQuote(step.action, 60)} is not used: AgentPod runs no actions`)
    if (step.run === '') continue
    const directory = step.workingDirectory === '' ? '' : pathInProject('', step.workingDirectory)
    if (step.run.includes('${{') || directory === undefined || step.workingDirectory.includes('${{')) {
      format.notes.push(
        `${place}: ${shortQuote(step.run, 60)} is not used: it is computed from values that only GitHub has`,
      )
      continue
    }
    const evidence = { file: AGENT_WORKFLOW, line: step.line('run'), said: shortQuote(step.run) }
    format.setup.push({ run: step.run, evidence, ...(directory !== '' && { directory }) })
  }
  return [format]
}
