/** Reads the parts of GitHub workflows that detection uses. */
import { isObject, type JsonObject, listAt, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { textAt } from './parsed-file.ts'
import { parseYaml, type YamlFile } from './yaml-file.ts'

export interface WorkflowStep {
  /** The action without its version: `actions/setup-node`. */
  readonly action: string
  /** The part after the `@`. */
  readonly reference: string
  readonly run: string
  readonly workingDirectory: string
  /** Its condition; empty if it always runs. */
  readonly condition: string
  /** An input of the action. A reference to the matrix or a variable gives each of its values. */
  values(name: string): readonly string[]
  /** The line of the step, or of something in it. */
  line(...keys: readonly string[]): number | undefined
}

export interface WorkflowImage {
  readonly name: string
  readonly image: string
  /** The `env` of a service container. */
  readonly variables: JsonObject
  readonly line: number | undefined
}

export interface WorkflowJob {
  readonly id: string
  readonly name: string
  readonly container?: WorkflowImage | undefined
  readonly services: readonly WorkflowImage[]
  readonly steps: readonly WorkflowStep[]
}

export interface Workflow {
  readonly file: string
  readonly jobs: readonly WorkflowJob[]
  readonly problem?: string | undefined
}

/** The workflow that prepares a machine for GitHub's agent; its job has the same name. */
export const AGENT_WORKFLOW = '.github/workflows/copilot-setup-steps.yml'
export const AGENT_JOB = 'copilot-setup-steps'

const DIRECTORY = '.github/workflows'
const MOST_FILES = 40
/** For all workflows together, so that a project with many does not slow down each start. */
const MOST_TEXT = 512 * 1024
const MOST_JOBS = 100
const MOST_STEPS = 200
const MOST_VALUES = 50

/** All workflows except the one for the agent. */
export function workflows(tree: FileTree): readonly Workflow[] {
  let room = MOST_TEXT
  return tree
    .in(DIRECTORY)
    .map((name) => `${DIRECTORY}/${name}`)
    .filter((file) => /\.ya?ml$/.test(file) && file !== AGENT_WORKFLOW)
    .slice(0, MOST_FILES)
    .flatMap((file) => {
      room -= tree.read(file)?.length ?? 0
      const read = room < 0 ? undefined : tree.readAs(file, workflowOf)
      return read ? [{ file, ...read }] : []
    })
}

/** The workflow for the agent, with only its setup job. */
export function agentWorkflow(tree: FileTree): Workflow | undefined {
  const read = tree.readAs(AGENT_WORKFLOW, workflowOf)
  return read && { file: AGENT_WORKFLOW, ...read, jobs: read.jobs.filter(({ id }) => id === AGENT_JOB) }
}

function workflowOf(text: string): Omit<Workflow, 'file'> {
  const yaml = parseYaml(text)
  const jobs = Object.entries(objectAt(yaml.data, 'jobs')).slice(0, MOST_JOBS)
  return {
    jobs: jobs.flatMap(([id, job]) => (isObject(job) ? [jobOf(yaml, id, job)] : [])),
    ...(yaml.problem !== undefined && { problem: yaml.problem }),
  }
}

function jobOf(yaml: YamlFile, id: string, job: JsonObject): WorkflowJob {
  const path = ['jobs', id]
  const scopes = { matrix: matrixOf(job), env: { ...objectAt(yaml.data, 'env'), ...objectAt(job, 'env') } }
  const imageAt = (name: string, key: string, value: unknown): WorkflowImage[] => {
    const written = typeof value === 'string' ? value : textAt(value, 'image')
    const images = written === undefined ? [] : expand(written, scopes)
    return images.map((image) => ({
      name,
      image,
      variables: objectAt(value, 'env'),
      line: yaml.lineAt([...path, ...key.split('/')]),
    }))
  }
  const [container] = imageAt('container', 'container', job['container'])
  return {
    id,
    name: textAt(job, 'name') ?? id,
    container,
    services: Object.entries(objectAt(job, 'services'))
      .slice(0, MOST_VALUES)
      .flatMap(([name, service]) => imageAt(name, `services/${name}/image`, service)),
    steps: listAt(job, 'steps')
      .slice(0, MOST_STEPS)
      .flatMap((step, at) => (isObject(step) ? [stepOf(yaml, [...path, 'steps', at], step, scopes)] : [])),
  }
}

interface Scopes {
  readonly matrix: ReadonlyMap<string, readonly string[]>
  readonly env: JsonObject
}

function stepOf(
  yaml: YamlFile,
  path: readonly (string | number)[],
  step: JsonObject,
  scopes: Scopes,
): WorkflowStep {
  const [action = '', reference = ''] = (textAt(step, 'uses') ?? '').split('@')
  return {
    action: action.toLowerCase(),
    reference,
    run: textAt(step, 'run') ?? '',
    workingDirectory: textAt(step, 'working-directory') ?? '',
    condition: textAt(step, 'if') ?? '',
    values: (name) => expand(textAt(step, 'with', name) ?? '', scopes),
    line: (...keys) => yaml.lineAt([...path, ...keys]),
  }
}

function matrixOf(job: JsonObject): ReadonlyMap<string, readonly string[]> {
  const matrix = objectAt(job, 'strategy', 'matrix')
  const values = new Map<string, string[]>()
  const add = (name: string, value: unknown): void => {
    if (typeof value !== 'string') return
    const known = values.get(name) ?? []
    if (known.length < MOST_VALUES && !known.includes(value)) values.set(name, [...known, value])
  }
  for (const [name, list] of Object.entries(matrix).slice(0, MOST_VALUES)) {
    if (name === 'include' || name === 'exclude' || !Array.isArray(list)) continue
    for (const value of list.slice(0, MOST_VALUES)) add(name, value)
  }
  for (const more of listAt(matrix, 'include').slice(0, MOST_VALUES))
    if (isObject(more))
      for (const [name, value] of Object.entries(more).slice(0, MOST_VALUES)) add(name, value)
  return values
}

const REFERENCE = /^\$\{\{ ?(matrix|env)(?:\.([\w-]{1,60})|\[['"]([\w-]{1,60})['"]\]) ?\}\}$/

/** A value, all values of a reference, or each line of a multi-line value. Computed values give none. */
function expand(written: string, scopes: Scopes): readonly string[] {
  if (written.includes('${{')) {
    const [, scope, plain, quoted] = REFERENCE.exec(written.replaceAll(/\s+/g, ' ')) ?? []
    const name = plain ?? quoted
    if (name === undefined) return []
    if (scope === 'matrix') return scopes.matrix.get(name) ?? []
    const value = textAt(scopes.env, name)
    return value === undefined || value.includes('${{') ? [] : [value]
  }
  return written
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .slice(0, MOST_VALUES)
}
