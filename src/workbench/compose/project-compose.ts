/** The compose file of a project, and whether its services run as a group with the project's sandbox. */
import { composeFilesIn, readCompose } from '../../config/compose/compose-project.ts'
import type { ComposeProject } from '../../config/compose/model.ts'
import { type ChosenService, projectService } from '../../config/compose/project-service.ts'
import { readYaml } from '../../config/compose/yaml-document.ts'
import type { Detected } from '../../config/detect/detect.ts'
import type { FileTree } from '../../config/file-tree.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { isObject, listAt, objectAt } from '../../util/untrusted-json.ts'

/** A compose file with the service that is the project itself. */
export interface ProjectCompose extends ChosenService {
  readonly compose: ComposeProject
}

export interface ComposeOptions {
  /** Do not use the compose file. */
  readonly isOff?: boolean | undefined
  /** The service that is the project itself. */
  readonly service?: string | undefined
  readonly profiles?: readonly string[] | undefined
}

/** A note for the person about a file that is not used. */
export type SayNote = (text: string) => void

/**
 * If a service is the project itself, its settings use the names of the others, so these run as members of a
 * group. If none is, the file starts helpers for a project outside of it, at ports of this machine: then the
 * services that AgentPod knows run inside the sandbox, at the same ports.
 */
export function projectCompose(tree: FileTree, o: ComposeOptions, say: SayNote): ProjectCompose | undefined {
  if (o.isOff) return undefined
  const files = composeFilesIn('', (file) => tree.has(file))
  if (files.length === 0) return undefined
  const compose = readOrUndefined(tree, files, o, say)
  if (!compose) return undefined
  const chosen = projectService(compose, o.service)
  if (!chosen) return undefined
  return { compose, ...chosen }
}

/** A file that cannot be honoured is an error if a service may be the project itself, and else a note. */
function readOrUndefined(
  tree: FileTree,
  files: readonly string[],
  { profiles, service }: ComposeOptions,
  say: SayNote,
): ComposeProject | undefined {
  try {
    return readCompose({
      files,
      read: (file) => tree.read(file),
      isLeftOut: (file) => tree.isLeftOut(file),
      profiles,
    })
  } catch (error) {
    if (!isAgentPodError(error)) throw error
    const { code, reason, message, hint, details } = error
    if (service === undefined && !files.some((file) => mayBeProject(tree, file))) {
      say(`${message}; the services of the file do not run beside the sandbox`)
      return undefined
    }
    const other = '--no-compose runs without the compose file'
    throw new AgentPodError({ code, reason, message, hint: hint ? `${hint}; ${other}` : other, details })
  }
}

/** Whether a service is built, or mounts the directory of the file. False for a file that is no YAML. */
function mayBeProject(tree: FileTree, file: string): boolean {
  try {
    const { value } = readYaml({ file, text: tree.read(file) ?? '' })
    return Object.values(objectAt(value, 'services')).some(
      (one) => isObject(one) && (one['build'] !== undefined || listAt(one, 'volumes').some(mountsHere)),
    )
  } catch {
    return false
  }
}

function mountsHere(mount: unknown): boolean {
  const source = typeof mount === 'string' ? mount.split(':', 1)[0] : isObject(mount) && mount['source']
  return source === '.' || source === './'
}

/** What the files ask for, without services: members of the group are in their place. */
export function withoutServices(detected: Detected): Detected {
  return { ...detected, services: [], variables: [] }
}

/** Refuses options about the compose file that would have no effect. */
export function refuseUnfit(
  { service, profiles = [] }: ComposeOptions,
  why: string,
  hint: string,
): undefined {
  const given = service !== undefined ? '--service' : profiles.length > 0 ? '--compose-profile' : undefined
  if (given === undefined) return undefined
  throw invalid('option.compose', `${given} has no effect: ${why}`, hint)
}
