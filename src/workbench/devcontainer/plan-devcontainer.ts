/** The devcontainer of a project, from its file to what a plan is made with. */
import { lifecyclePlan } from '../../config/devcontainer/lifecycle.ts'
import { NO_WISH } from '../../config/grants/combine.ts'
import { hasDevcontainerLine, NO_PRIVILEGES } from '../../config/grants/privileges.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import type {
  DevcontainerEnvironment,
  ImageFacts,
} from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { projectWish } from '../../config/project/data.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { ComposeOptions } from '../compose/project-compose.ts'
import { type ProjectFiles, treeOf } from '../environment/detect-project.ts'
import type { MoreWishes } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import { type DevcontainerRequest, readDevcontainer, variablePrivilege } from './read-devcontainer.ts'
import { imageFacts, isGranted, resolveDevcontainer } from './resolve-devcontainer.ts'

export interface DevcontainerOptions {
  readonly devcontainer?: string | undefined
  readonly isWithoutDevcontainer?: boolean | undefined
  readonly provider?: string | undefined
  readonly imageFacts?: ImageFacts | undefined
  readonly isWithoutLifecycle?: boolean | undefined
  /** How its compose files are used. */
  readonly compose?: ComposeOptions | undefined
}

/** Registries that commands and Features of devcontainers use, as detected languages use theirs. */
export const CONTAINER_PRESETS = ['apt', 'npm', 'pip'] as const

/** What the file asks for; undefined if there is none. */
export async function askedDevcontainer(
  bench: Workbench,
  project: ProjectFiles,
  o: DevcontainerOptions,
): Promise<DevcontainerRequest | undefined> {
  if (o.isWithoutDevcontainer) return undefined
  try {
    const { devcontainer, compose } = o
    return readDevcontainer(bench, project, treeOf(project), { devcontainer, compose })
  } catch (error) {
    if (isAgentPodError(error, 'invalid_argument')) throw withOtherWay(error)
    if (o.devcontainer !== undefined || !isAgentPodError(error, 'unsupported')) throw error
    bench.person.notice({ kind: 'note', text: error.message })
    return undefined
  }
}

function withOtherWay({ code, reason, message, hint, details }: AgentPodError): AgentPodError {
  const other = '--no-devcontainer ignores the file'
  return new AgentPodError({ code, reason, message, hint: hint ? `${hint}; ${other}` : other, details })
}

/** The file asks for an image, Features and variables, and says which secrets it can use. */
export function moreWishes({ document, privileges, properties, tables }: DevcontainerRequest): MoreWishes {
  const declared = Object.keys(properties.secrets ?? {}).map((name) => ({
    name,
    hosts: [],
    header: undefined,
    isRequired: false,
  }))
  const own = tables ? projectWish(tables) : NO_WISH
  const isOwn = (name: string): boolean => own.secrets.some((one) => one.name === name)
  const secrets = [...own.secrets, ...declared.filter(({ name }) => !isOwn(name))]
  return { file: document.file, privileges, wish: { ...own, secrets } }
}

/** Which parts of `customizations.agentpod` only agentpod.toml can have. */
function tableNotes({ document, tables, properties }: DevcontainerRequest): string[] {
  const said = properties.customizations?.['agentpod']
  if (!tables || typeof said !== 'object' || said === null) return []
  return ['agents', 'docker', 'isolation']
    .filter((key) => Object.hasOwn(said, key))
    .map((key) => `${document.file}: customizations.agentpod.${key} is not used: write it in agentpod.toml`)
}

/** Undefined if the user has not approved what the container is made of. */
export async function grantedDevcontainer(
  bench: Workbench,
  project: ProjectFiles,
  request: DevcontainerRequest,
  o: DevcontainerOptions & { readonly wish: NetworkWish },
): Promise<DevcontainerEnvironment | undefined> {
  const granted = o.wish.privileges ?? NO_PRIVILEGES
  if (!isGranted(request, granted)) return undefined
  const again = readDevcontainer(bench, project, treeOf(project), {
    devcontainer: o.devcontainer,
    compose: o.compose,
    isVariableGranted: (name) => hasDevcontainerLine(granted, variablePrivilege(name)),
  })
  const { image: ref } = request.base
  const known =
    o.imageFacts ??
    (ref === undefined ? undefined : await imageFacts(bench, ref, { provider: o.provider, isPulled: false }))
  const resolved = await resolveDevcontainer(bench, project, again ?? request, { granted, image: known })
  const whole = {
    ...resolved,
    volumes: [...resolved.volumes, ...tableVolumes(request, resolved)],
    ephemeral: [...resolved.ephemeral, ...tableEphemeral(request, resolved)],
    notes: [...resolved.notes, ...tableNotes(request)],
  }
  return o.isWithoutLifecycle ? withoutLifecycle(whole) : whole
}

function tableVolumes(
  { tables }: DevcontainerRequest,
  { evidence }: DevcontainerEnvironment,
): DevcontainerEnvironment['volumes'] {
  return (tables?.volumes ?? []).map((one) => ({
    ...one,
    evidence: evidence(['customizations', 'agentpod', 'volumes', one.name], `volumes ${one.name}`),
  }))
}

function tableEphemeral(
  { tables }: DevcontainerRequest,
  { evidence }: DevcontainerEnvironment,
): DevcontainerEnvironment['ephemeral'] {
  return (tables?.ephemeral ?? []).map((one, n) => ({
    ...one,
    evidence: evidence(['customizations', 'agentpod', 'ephemeral', 'paths', n], `ephemeral ${one.path}`),
  }))
}

function withoutLifecycle(environment: DevcontainerEnvironment): DevcontainerEnvironment {
  return {
    ...environment,
    initialize: undefined,
    plan: { ...environment.plan, initialize: undefined, lifecycle: lifecyclePlan([]) },
  }
}
