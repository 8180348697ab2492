/** What a project's devcontainer.json asks for, before anything is fetched. */
import { realpathSync } from 'node:fs'
import { posix } from 'node:path'
import type { BaseDockerfile } from '../../bases/base-kind.ts'
import { mergeAgentpodTables } from '../../config/devcontainer/agentpod-tables.ts'
import { composeWorkspace } from '../../config/devcontainer/compose-source.ts'
import {
  type DevcontainerFile,
  devcontainerSource,
  parseDevcontainer,
} from '../../config/devcontainer/devcontainer-file.ts'
import { parseFeatureLock, withLockedDependencies } from '../../config/devcontainer/features/feature-lock.ts'
import { chooseDevcontainer, devcontainerLockPath } from '../../config/devcontainer/locate.ts'
import { parseMount } from '../../config/devcontainer/mounts.ts'
import type { DevcontainerProperties } from '../../config/devcontainer/properties.ts'
import { type ReadConfiguration, readConfiguration } from '../../config/devcontainer/read-configuration.ts'
import { localVariableNames, OPEN_VARIABLES } from '../../config/devcontainer/safety.ts'
import { devcontainerLabels, replaceDevcontainerId } from '../../config/devcontainer/variables.ts'
import { directoryOf, type FileTree } from '../../config/file-tree.ts'
import type { Privileges } from '../../config/grants/privileges.ts'
import type { DevcontainerBase } from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { type ProjectData, projectData } from '../../config/project/data.ts'
import { dockerfileImages } from '../../config/project/dockerfile-images.ts'
import { invalid } from '../../core/error.ts'
import { type ComposeOptions, refuseUnfit } from '../compose/project-compose.ts'
import type { ProjectFiles } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'
import { composeBase, groupPrivileges } from './compose-base.ts'

const LARGEST_FILE = 1024 * 1024

/** A devcontainer with local variables replaced, and what it needs approval for. */
export interface DevcontainerRequest {
  readonly document: DevcontainerFile
  readonly read: ReadConfiguration
  readonly properties: DevcontainerProperties
  readonly base: DevcontainerBase
  readonly workspace: string
  /** `customizations.agentpod`, in the form of agentpod.toml. */
  readonly tables: ProjectData | undefined
  readonly lock: { readonly file: string; readonly text: string } | undefined
  /** Those that the file names, and those that the lockfile adds because these depend on them. */
  readonly features: readonly string[]
  readonly privileges: Pick<Privileges, 'images' | 'dockerfiles' | 'devcontainer'>
}

export interface DevcontainerChoice {
  /** The name or path of one of several. */
  readonly devcontainer?: string | undefined
  /** How its compose files are used. */
  readonly compose?: ComposeOptions | undefined
  /** Which of this machine's variables the user has approved. */
  isVariableGranted?(name: string): boolean
}

/**
 * Undefined if the project has none.
 *
 * SECURITY: CF-02. The file is read as hostile text; nothing of it runs or is followed here.
 */
export function readDevcontainer(
  bench: Pick<Workbench, 'env'>,
  project: Pick<ProjectFiles, 'directory' | 'name'>,
  tree: FileTree,
  o: DevcontainerChoice = {},
): DevcontainerRequest | undefined {
  const file = chooseDevcontainer(tree, o.devcontainer)
  if (file === undefined) return undefined
  const text = tree.read(file)
  if (text === undefined)
    throw invalid(
      'devcontainer.unreadable',
      `${file} cannot be read: it is a link, is larger than ${LARGEST_FILE} bytes, or is not text`,
      'replace it with a regular file',
    )
  const document = parseDevcontainer({ file, text }, { isLenient: true })
  const root = realpathSync(project.directory)
  const local = readConfiguration({
    file: document,
    // The copy inside has the name that AgentPod gives it.
    project: { directory: root, gitRoot: root },
    env: visibleEnv(bench.env, o),
  })
  const labels = devcontainerLabels(root, posix.join(root, file))
  const replace = <T>(value: T): T => replaceDevcontainerId(local.replace(value), labels)
  const configuration = replaceDevcontainerId(local.configuration, labels)
  const properties = replace(document.properties)
  const base = baseOf(document, properties, { root, tree, compose: o.compose })
  const folder = checkedFolder(document, local.workspace.workspaceFolder)
  const lockFile = devcontainerLockPath(file)
  const lockText = tree.read(lockFile)
  const lock = lockText === undefined ? undefined : { file: lockFile, text: lockText }
  const features = withLockedDependencies(
    Object.keys(properties.features ?? {}),
    lock && parseFeatureLock(lock),
  )
  return {
    document,
    read: { configuration, replace, workspace: { ...local.workspace, workspaceFolder: folder } },
    properties,
    base,
    workspace: mountTarget(properties, base, folder),
    tables: tablesOf(properties),
    lock,
    features,
    privileges: privilegesOf(document, properties, { base, tree, features }),
  }
}

function tablesOf({ customizations }: DevcontainerProperties): ProjectData | undefined {
  const said = customizations?.['agentpod']
  return said === undefined ? undefined : projectData(mergeAgentpodTables([said]).tables)
}

/**
 * SECURITY: CF-02. Variables of this machine may be secrets, and a project would carry them into its sandbox.
 * The others need approval.
 */
function visibleEnv(env: Workbench['env'], o: DevcontainerChoice): Record<string, string | undefined> {
  const isVisible = (name: string): boolean =>
    OPEN_VARIABLES.has(name) || o.isVariableGranted?.(name) === true
  return Object.fromEntries(Object.entries(env).filter(([name]) => isVisible(name)))
}

function baseOf(
  document: DevcontainerFile,
  properties: DevcontainerProperties,
  { root, tree, compose }: { root: string; tree: FileTree; compose: ComposeOptions | undefined },
): DevcontainerBase {
  const { file } = document
  const source = devcontainerSource(properties)
  const evidence = (key: readonly string[], said: string): DevcontainerBase['evidence'] => ({
    file,
    line: document.at(key)?.line,
    said,
  })
  if (source.kind !== 'from-compose')
    refuseUnfit(
      compose ?? {},
      `${file} is no service of a compose file`,
      '--no-devcontainer uses the compose file alone',
    )
  if (source.kind === 'from-image')
    return { image: source.image, evidence: evidence(['image'], `image ${JSON.stringify(source.image)}`) }
  if (source.kind === 'from-compose') return composeBase({ document, source, tree, directory: root }, compose)
  const key = properties.dockerFile === undefined ? ['build', 'dockerfile'] : ['dockerFile']
  const dockerfile: BaseDockerfile = {
    file: insideProject(document, key, source.dockerfile),
    context: insideProject(document, ['build', 'context'], source.context),
    target: source.target,
    args: source.args,
    images: [],
  }
  const text = tree.read(dockerfile.file)
  const images = text === undefined ? [] : dockerfileImages(text, source.args)
  return {
    dockerfile: { ...dockerfile, images },
    evidence: evidence(key, `${key.join('.')} ${JSON.stringify(source.dockerfile)}`),
  }
}

/** Paths are relative to the file's own directory. */
function insideProject({ file, at }: DevcontainerFile, key: readonly string[], path: string): string {
  const joined = posix.normalize(posix.join(directoryOf(file) || '.', path)).replace(/\/$/, '')
  if (posix.isAbsolute(path) || joined === '..' || joined.startsWith('../'))
    throw invalid(
      'devcontainer.outside',
      `${file}:${at(key)?.line ?? 1}: ${key.join('.')} ${JSON.stringify(path)} is outside the project`,
      'a sandbox only gets files of the project: move it into the project',
    )
  return joined === '.' ? '' : joined
}

const SYSTEM_DIRECTORIES = /^\/(?:bin|boot|dev|etc|lib[^/]*|proc|run|sbin|sys|usr|var)?(?:\/|$)/

function checkedFolder({ file, at }: DevcontainerFile, path: string): string {
  const folder = posix.normalize(path).replace(/(?<=.)\/$/, '')
  const isPlain = /^\/[\p{L}\p{N} ._@+/-]{1,500}$/u.test(folder) && !folder.includes('/../')
  if (isPlain && !SYSTEM_DIRECTORIES.test(folder)) return folder
  throw invalid(
    'devcontainer.workspace',
    `${file}:${at(['workspaceFolder'])?.line ?? 1}: workspaceFolder ${JSON.stringify(path)} cannot hold the project`,
    'name a directory of its own, like "/workspaces/app"',
  )
}

/** The copy is where the mount would be, so a folder below it is part of the copy. */
function mountTarget(
  { workspaceMount }: DevcontainerProperties,
  { group }: DevcontainerBase,
  folder: string,
): string {
  const service = group && composeWorkspace(group.compose.service, folder)
  const target =
    workspaceMount === undefined ? (service ?? folder) : posix.normalize(parseMount(workspaceMount).target)
  const isAbove = target !== '/' && `${folder}/`.startsWith(`${target}/`) && !SYSTEM_DIRECTORIES.test(target)
  return isAbove ? target : folder
}

function privilegesOf(
  { file, raw }: DevcontainerFile,
  properties: DevcontainerProperties,
  {
    base,
    tree,
    features,
  }: { readonly base: DevcontainerBase; readonly tree: FileTree; readonly features: readonly string[] },
): DevcontainerRequest['privileges'] {
  const { image, dockerfile } = base
  const others = groupPrivileges(base, tree)
  const own = [...(image === undefined ? [] : [image]), ...(dockerfile?.images ?? [])]
  const images = [...new Set([...own, ...others.images])]
  const dockerfiles = [...new Set([...(dockerfile ? [dockerfile.file] : []), ...others.dockerfiles])]
  const wanted = [
    ...features.map(featurePrivilege),
    ...(properties.initializeCommand === undefined
      ? []
      : [initializePrivilege(file, properties.initializeCommand)]),
    ...localVariableNames(raw)
      .filter((name) => !OPEN_VARIABLES.has(name))
      .map(variablePrivilege),
  ]
  return {
    ...(images.length > 0 && { images }),
    ...(dockerfiles.length > 0 && { dockerfiles }),
    ...(wanted.length > 0 && { devcontainer: wanted }),
  }
}

export function featurePrivilege(name: string): string {
  return `the Feature ${name}, whose script runs as root in sandboxes`
}

export function variablePrivilege(name: string): string {
  return `the value of your variable ${name}, which programs in the sandbox can read`
}

export function initializePrivilege(
  file: string,
  command: NonNullable<DevcontainerProperties['initializeCommand']>,
): string {
  return `initializeCommand of ${file}, in the sandbox and not on this machine: ${JSON.stringify(command)}`
}
