/** A project's devcontainer.json as the official command's `read-configuration` prints it. */

import { lstatSync, realpathSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { serviceDockerfile } from '../../config/compose/service-dockerfile.ts'
import { type DevcontainerCompose, devcontainerCompose } from '../../config/devcontainer/compose-source.ts'
import {
  type DevcontainerFile,
  devcontainerSource,
  parseDevcontainer,
} from '../../config/devcontainer/devcontainer-file.ts'
import { type DevcontainerPlan, devcontainerPlan } from '../../config/devcontainer/devcontainer-plan.ts'
import { resolveFeatures } from '../../config/devcontainer/features/feature-graph.ts'
import { parseFeatureLock } from '../../config/devcontainer/features/feature-lock.ts'
import { featureResource } from '../../config/devcontainer/features/feature-reference.ts'
import type { FeatureResolver } from '../../config/devcontainer/features/feature-resolver.ts'
import {
  type LabelMetadata,
  METADATA_LABEL,
  parseMetadataLabel,
} from '../../config/devcontainer/image-metadata.ts'
import { chooseDevcontainer, devcontainerLockPath } from '../../config/devcontainer/locate.ts'
import type { DevcontainerProperties } from '../../config/devcontainer/properties.ts'
import {
  printedConfiguration,
  type ReadConfiguration,
  readConfiguration,
} from '../../config/devcontainer/read-configuration.ts'
import { directoryOf, type FileTree, joinPath } from '../../config/file-tree.ts'
import { dockerfileBase } from '../../config/project/dockerfile-images.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { listProject } from '../../sync/project-files.ts'
import type { JsonObject } from '../../util/untrusted-json.ts'
import { treeOf } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'

export interface PrintRequest {
  /** The name or path of one of several files. */
  readonly choice?: string | undefined
  /** Whether the image's label and Features are read and merged too. */
  readonly isMerged: boolean
}

export interface PrintedDevcontainer {
  readonly file: DevcontainerFile
  /** `configuration`, `workspace` and, if asked for, `mergedConfiguration`. */
  readonly printed: JsonObject
  /** With the image's label and Features only if they were asked for. */
  readonly plan: DevcontainerPlan
  readonly notes: readonly string[]
}

export async function printDevcontainer(
  bench: Workbench,
  request: PrintRequest,
): Promise<PrintedDevcontainer> {
  const directory = realpathSync(bench.cwd)
  const tree = treeOf({
    directory,
    files: await listProject({ directory, exclude: [bench.home.root], env: bench.env }),
  })
  const path = chooseDevcontainer(tree, request.choice)
  if (path === undefined)
    throw new AgentPodError({
      code: 'not_found',
      reason: 'devcontainer.none',
      message: 'this project has no devcontainer.json',
      hint: 'it would be in .devcontainer/devcontainer.json or .devcontainer.json',
    })
  const file = parseDevcontainer({ file: path, text: textOf(tree, path) })
  const read = readConfiguration({
    file,
    project: { directory, gitRoot: repositoryOf(directory) },
    env: bench.env,
  })
  const { label, features } = request.isMerged
    ? {
        label: await labelOf(bench, tree, directory, file, read),
        features: await featuresOf(bench, tree, file, read),
      }
    : { label: NO_LABEL, features: [] }
  const input = { label: label.entries, features }
  const plan = devcontainerPlan(file, read, input)
  return {
    file,
    printed: printedConfiguration(
      read,
      { directory, file: path, isChosen: request.choice !== undefined },
      request.isMerged ? input : undefined,
    ),
    plan,
    notes: [...plan.notes, ...label.notes],
  }
}

function textOf(tree: FileTree, path: string): string {
  const text = tree.read(path)
  if (text !== undefined) return text
  throw invalid(
    'file.malformed',
    `${path} cannot be read: it is a symbolic link, larger than 1 MiB, or not text`,
    'replace it with a regular file',
  )
}

/** The directory above, or the project itself, that has a `.git`. */
function repositoryOf(directory: string): string | undefined {
  for (let at = directory; ; at = dirname(at)) {
    if (lstatSync(join(at, '.git'), { throwIfNoEntry: false })) return at
    if (at === dirname(at)) return undefined
  }
}

const NO_LABEL: LabelMetadata = { entries: [], notes: [] }

/** Fails if the image is not stored: a merge without its label would be another configuration. */
async function labelOf(
  bench: Workbench,
  tree: FileTree,
  directory: string,
  file: DevcontainerFile,
  { configuration }: ReadConfiguration,
): Promise<LabelMetadata> {
  const source = devcontainerSource(configuration as DevcontainerProperties)
  const isService = source.kind === 'from-compose'
  const ref = isService
    ? serviceImage(tree, devcontainerCompose({ document: file, source, tree, directory }))
    : source.kind === 'from-image'
      ? source.image
      : baseOf(tree, file, source.dockerfile, source)
  if (ref === undefined) return NO_LABEL
  const pod = await bench.client()
  try {
    const { labels } = await pod.images.get(ref)
    const text = Object.hasOwn(labels, METADATA_LABEL) ? labels[METADATA_LABEL] : undefined
    return text === undefined || text === '' ? NO_LABEL : parseMetadataLabel(text, ref)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
    if (isService)
      return {
        entries: [],
        notes: [`the image ${ref} of the service is not stored here: its label is missing`],
      }
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'devcontainer.image',
      message: `the image ${ref} is not stored here, and its label is part of the merged configuration`,
      hint: `get it first: agentpod image pull ${ref}`,
      cause: error,
    })
  }
}

/** The image of the service, or the one below its Dockerfile's stage. */
function serviceImage(tree: FileTree, { service }: DevcontainerCompose): string | undefined {
  const { build } = service
  const path = serviceDockerfile(tree, service)?.file
  if (!build || path === undefined) return service.image
  if (!tree.has(path))
    throw invalid(
      'devcontainer.dockerfile',
      `${service.file}:${service.line ?? 1}: ${path} is not a file of this project`,
    )
  return dockerfileBase(textOf(tree, path), build.args, build.target)
}

/** Undefined if the Dockerfile starts from nothing. */
function baseOf(
  tree: FileTree,
  { file, at }: DevcontainerFile,
  dockerfile: string,
  o: { readonly args: Readonly<Record<string, string>>; readonly target?: string | undefined },
): string | undefined {
  const path = posix.normalize(joinPath(directoryOf(file), dockerfile))
  const line = (at(['build', 'dockerfile']) ?? at(['dockerFile']))?.line ?? 1
  if (!tree.has(path))
    throw invalid('devcontainer.dockerfile', `${file}:${line}: ${path} is not a file of this project`)
  return dockerfileBase(textOf(tree, path), o.args, o.target)
}

async function featuresOf(
  bench: Workbench,
  tree: FileTree,
  { file, at }: DevcontainerFile,
  { configuration }: ReadConfiguration,
): ReturnType<typeof resolveFeatures> {
  const { features = {}, overrideFeatureInstallOrder } = configuration as DevcontainerProperties
  if (Object.keys(features).length === 0) return []
  const lockPath = devcontainerLockPath(file)
  return await resolveFeatures(
    {
      file,
      features,
      overrideFeatureInstallOrder,
      at,
      lock: tree.has(lockPath)
        ? parseFeatureLock({ file: lockPath, text: textOf(tree, lockPath) })
        : undefined,
    },
    resolverFor(bench, tree),
  )
}

/** The server fetches; folders are read from the project, without following links. */
function resolverFor(bench: Workbench, tree: FileTree): FeatureResolver {
  return {
    async artifact(reference, pinned) {
      const { tag, digest = pinned } = reference
      const name = featureResource(reference)
      return (await bench.client()).images.feature(
        digest === undefined ? `${name}:${tag}` : `${name}@${digest}`,
      )
    },
    tarball: async ({ url }) => (await bench.client()).images.feature(url),
    folder: async ({ path }) => tree.read(`${path}/devcontainer-feature.json`),
  }
}
