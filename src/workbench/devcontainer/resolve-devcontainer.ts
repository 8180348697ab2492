/** Resolves a devcontainer that was approved: its Features, and what the label of its image says. */

import { image as imageKind } from '../../bases/image.ts'
import type { StoredImageInfo } from '../../client/images.ts'
import { devcontainerPlan } from '../../config/devcontainer/devcontainer-plan.ts'
import { resolveFeatures } from '../../config/devcontainer/features/feature-graph.ts'
import { parseFeatureLock } from '../../config/devcontainer/features/feature-lock.ts'
import {
  checkFeatureOptions,
  featureOptionValues,
} from '../../config/devcontainer/features/feature-options.ts'
import { METADATA_LABEL, parseMetadataLabel } from '../../config/devcontainer/image-metadata.ts'
import {
  hasDevcontainerLine,
  hasDockerfile,
  hasImage,
  NO_PRIVILEGES,
  type Privileges,
} from '../../config/grants/privileges.ts'
import {
  type DevcontainerEnvironment,
  devcontainerEnvironment,
  type ImageFacts,
} from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { isAgentPodError } from '../../core/error.ts'
import type { ProjectFiles } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'
import { featureStore } from './feature-store.ts'
import { type DevcontainerRequest, featurePrivilege, initializePrivilege } from './read-devcontainer.ts'

/** Whether everything that the container is made of was approved. */
export function isGranted(
  { privileges, features }: DevcontainerRequest,
  granted: Privileges | undefined,
): boolean {
  const has = granted ?? NO_PRIVILEGES
  const listed = (names: Privileges['images'] = []): readonly string[] => (names === 'any' ? [] : names)
  return (
    listed(privileges.images).every((one) => hasImage(has, one)) &&
    listed(privileges.dockerfiles).every((one) => hasDockerfile(has, one)) &&
    features.every((name) => hasDevcontainerLine(has, featurePrivilege(name)))
  )
}

export async function resolveDevcontainer(
  bench: Workbench,
  project: ProjectFiles,
  request: DevcontainerRequest,
  o: { readonly granted: Privileges | undefined; readonly image: ImageFacts | undefined },
): Promise<DevcontainerEnvironment> {
  const { document, properties, lock } = request
  const { file } = document
  const store = featureStore(bench, project)
  const resolved = await resolveFeatures(
    {
      file,
      features: properties.features ?? {},
      overrideFeatureInstallOrder: properties.overrideFeatureInstallOrder,
      lock: lock && parseFeatureLock(lock),
    },
    store,
  )
  for (const { metadata, options } of resolved)
    checkFeatureOptions(metadata.properties, featureOptionValues(metadata.properties, options))
  const name = request.base.image ?? request.base.dockerfile?.file ?? file
  const text = o.image?.labels[METADATA_LABEL]
  const label = text === undefined ? { entries: [], notes: [] } : parseMetadataLabel(text, name)
  const { initializeCommand } = properties
  const granted = o.granted ?? NO_PRIVILEGES
  return devcontainerEnvironment({
    document,
    plan: devcontainerPlan(document, request.read, {
      label: label.entries.map((entry) => ({ ...entry, id: entry.id ?? name })),
      features: resolved,
    }),
    base: request.base,
    workspace: request.workspace,
    image: o.image,
    archives: resolved.map((feature) => store.archiveOf(feature)),
    isInitializeGranted:
      initializeCommand !== undefined &&
      hasDevcontainerLine(granted, initializePrivilege(file, initializeCommand)),
    notes: [
      ...label.notes,
      ...(o.image?.isHidden
        ? [
            `${file}: this provider does not show what the image ${name} sets: its label ${METADATA_LABEL} and its user are not read; name them in the file`,
          ]
        : []),
      ...resolved
        .filter(({ reference }) => !request.features.includes(reference.written))
        .map(
          ({ reference }) =>
            `${file}: the Feature ${reference.written} is installed too, because another Feature depends on it`,
        ),
      ...(hasTables(label.entries) ? [`customizations.agentpod in the label of ${name} is not used`] : []),
      ...resolved
        .filter(({ metadata }) => hasTables([metadata.properties]))
        .map(({ reference }) => `customizations.agentpod of the Feature ${reference.written} is not used`),
    ],
  })
}

/** Only the file itself is approved as a whole, so the tables of others have no effect. */
function hasTables(
  entries: readonly { readonly customizations?: Readonly<Record<string, unknown>> | undefined }[],
): boolean {
  return entries.some(({ customizations = {} }) => Object.hasOwn(customizations, 'agentpod'))
}

/** The settings of an image. It is pulled if `isPulled`; otherwise they may not be known. */
export async function imageFacts(
  bench: Workbench,
  ref: string,
  o: { readonly provider: string | undefined; readonly isPulled: boolean },
): Promise<ImageFacts | undefined> {
  const pod = await bench.client()
  const { provider } = o
  try {
    return factsOf(await pod.images.get(ref, { provider }))
  } catch (error) {
    // A provider whose daemon keeps the images tells nothing about them.
    if (isAgentPodError(error, 'unsupported')) return { isHidden: true, variables: {}, labels: {} }
    if (!isAgentPodError(error, 'not_found') || !o.isPulled) {
      if (isAgentPodError(error, 'not_found')) return undefined
      throw error
    }
  }
  using progress = bench.person.progress({})
  await pod.prepare(imageKind.name, (line) => progress.status(line), { image: ref, provider })
  return factsOf(await pod.images.get(ref, { provider }))
}

function factsOf(image: StoredImageInfo): ImageFacts {
  const { user, variables, labels, entrypoint, command, workdir } = image
  return {
    user: user ?? undefined,
    variables,
    labels,
    // The command of the API has the entrypoint in front of it.
    program: { entrypoint, command: command.slice(entrypoint.length), workdir: workdir ?? undefined },
  }
}
