/** What a devcontainer gives to the plan of an environment, with the place of each value in its file. */
import type { BaseDockerfile } from '../../../bases/base-kind.ts'
import { isNeverKept } from '../../../core/volume/ephemeral.ts'
import type { MemberImage, MemberService } from '../../compose/member-plan.ts'
import type { DevcontainerFile } from '../../devcontainer/devcontainer-file.ts'
import type { DevcontainerPlan } from '../../devcontainer/devcontainer-plan.ts'
import { featureOptionValues, featureVariables } from '../../devcontainer/features/feature-options.ts'
import type { ResolvedFeature } from '../../devcontainer/features/feature-resolver.ts'
import type { LifecycleStep } from '../../devcontainer/lifecycle.ts'
import { replaceContainerVariables } from '../../devcontainer/variables.ts'
import type { Evidence } from '../../evidence.ts'
import type { EphemeralWish, ResourcesWish, VolumeWish } from '../../project/data.ts'
import type { Path } from '../../toml/positions.ts'
import { composeParts, type DevcontainerGroup } from './compose-parts.ts'
import { expandedEnv, type FeatureInstall } from './feature-install.ts'

/** Settings of the image that the container is made from, as far as they are known. */
export interface ImageFacts {
  /** Whether the provider keeps its images to itself, so that nothing here is known. */
  readonly isHidden?: boolean | undefined
  readonly user?: string | undefined
  readonly variables: Readonly<Record<string, string>>
  /** What a container of it runs. */
  readonly program?: Pick<MemberImage, 'entrypoint' | 'command' | 'workdir'> | undefined
  readonly labels: Readonly<Record<string, string>>
}

/** What the base of the container is. */
export interface DevcontainerBase {
  readonly image?: string | undefined
  readonly dockerfile?: BaseDockerfile | undefined
  /** The services that the container is one of. */
  readonly group?: DevcontainerGroup | undefined
  readonly evidence: Evidence
}

export interface DevcontainerEnvironment {
  /** devcontainer.json, relative to the project. */
  readonly file: string
  readonly plan: DevcontainerPlan
  readonly base: DevcontainerBase
  readonly remoteUser: string
  readonly containerUser: string
  readonly userEvidence: Evidence
  /** Where the copy of the project is. */
  readonly workspace: string
  /** The directory of lifecycle commands, in the workspace. */
  readonly folder: string
  readonly workspaceEvidence: Evidence
  readonly features: readonly FeatureInstall[]
  /** Variables of the container, with evidence; later ones count. */
  readonly variables: readonly SaidVariable[]
  /** Variables of the image and of the container together. */
  readonly env: Readonly<Record<string, string>>
  /** What the file would run on the machine itself: undefined unless that was approved for a sandbox. */
  readonly initialize: LifecycleStep | undefined
  readonly volumes: readonly (VolumeWish & { readonly evidence: Evidence })[]
  /** Directories that are never kept, for mounts of temporary file systems. */
  readonly ephemeral: readonly (EphemeralWish & { readonly evidence: Evidence })[]
  /** Empty directories, for anonymous volumes of compose files. */
  readonly directories: readonly string[]
  /** The command of the service, with compose files. */
  readonly main: MemberService | undefined
  readonly resources: ResourcesWish
  readonly notes: readonly string[]
  evidence(path: Path, said: string): Evidence
}

export interface SaidVariable {
  readonly name: string
  readonly value: string
  readonly evidence: Evidence
}

export interface DevcontainerParts {
  readonly document: DevcontainerFile
  readonly plan: DevcontainerPlan
  readonly base: DevcontainerBase
  readonly workspace: string
  readonly image: ImageFacts | undefined
  /** The archives of the plan's Features, in their order. */
  readonly archives: readonly Buffer[]
  readonly isInitializeGranted: boolean
  readonly notes: readonly string[]
}

export function devcontainerEnvironment(parts: DevcontainerParts): DevcontainerEnvironment {
  const { document, plan, base, image, workspace } = parts
  const { file } = document
  const evidence = (path: Path, said: string): Evidence => {
    const line = document.at(path)?.line
    return line === undefined
      ? { file: '', said: `${said}, of the image or a Feature` }
      : { file, line, said }
  }
  const features = installsOf(plan.features, parts.archives, image?.variables ?? {})
  const added = features.flatMap(({ containerEnv, name }) =>
    Object.entries(containerEnv).map(([variable, value]) => ({
      name: variable,
      value,
      evidence: { file, line: document.at(['features', name])?.line, said: `the Feature ${name}` },
    })),
  )
  const { entrypoint = [], command = [], workdir } = image?.program ?? {}
  const service = composeParts(base.group, {
    document,
    plan,
    image: { entrypoint, command, workdir, user: image?.user },
  })
  const said = [...added, ...service.variables]
  const before = { ...image?.variables, ...valuesOf(said) }
  const variables = [
    ...said,
    ...Object.entries(plan.containerEnv).map(([name, text]) => ({
      name,
      value: replaceContainerVariables(text, before, file),
      evidence: evidence(['containerEnv', name], `containerEnv ${name}`),
    })),
  ]
  const containerUser = plan.containerUser ?? plainUser(service.user ?? image?.user) ?? 'root'
  const remoteUser = plan.remoteUser ?? containerUser
  const userKey = plan.remoteUser === undefined ? 'containerUser' : 'remoteUser'
  return {
    file,
    plan,
    base,
    remoteUser,
    containerUser,
    userEvidence: evidence([userKey], `${userKey} ${JSON.stringify(remoteUser)}`),
    workspace,
    folder: plan.workspaceFolder,
    workspaceEvidence:
      document.properties.workspaceFolder === undefined
        ? { file: '', said: 'the usual place of devcontainers' }
        : evidence(['workspaceFolder'], `workspaceFolder ${JSON.stringify(plan.workspaceFolder)}`),
    features,
    variables,
    env: { ...before, ...valuesOf(variables) },
    initialize: parts.isInitializeGranted ? plan.initialize : undefined,
    volumes: [...volumesOf(plan, (text) => evidence(['mounts'], text)), ...service.volumes],
    ephemeral: [...ephemeralOf(plan, (text) => evidence(['mounts'], text)), ...service.ephemeral],
    directories: service.directories,
    main: service.mainFor(containerUser),
    resources: { ...service.resources, ...resourcesOf(plan) },
    notes: [
      ...parts.notes,
      ...service.notes,
      ...plan.notes,
      ...refusedNotes(parts),
      ...otherPorts(parts),
      ...plan.entrypoints.flatMap(({ run, origin, lacks }) =>
        lacks.length === 0
          ? []
          : [
              `${file}: the entrypoint ${JSON.stringify(run)} of ${origin} is not started: it needs ${lacks.join(' and ')}, which a sandbox does not give`,
            ],
      ),
    ],
    evidence,
  }
}

/** Ports of other services: programs inside reach them, and nothing else does. */
function otherPorts({ document, plan, base }: DevcontainerParts): string[] {
  const own = base.group?.compose.service.name
  return plan.ports.flatMap(({ host, port }) =>
    host === undefined || host === own
      ? []
      : [
          `${document.file}:${document.at(['forwardPorts'])?.line ?? 1}: forwardPorts ${host}:${port} is not forwarded: programs in the sandbox reach it by that name`,
        ],
  )
}

function valuesOf(variables: readonly SaidVariable[]): Record<string, string> {
  return Object.fromEntries(variables.map(({ name, value }) => [name, value]))
}

function installsOf(
  features: readonly ResolvedFeature[],
  archives: readonly Buffer[],
  image: Readonly<Record<string, string>>,
): FeatureInstall[] {
  let env: Record<string, string> = { ...image }
  return features.map((feature, at): FeatureInstall => {
    const { id, version, containerEnv = {} } = feature.metadata.properties
    const added = expandedEnv(containerEnv, env)
    env = { ...env, ...added }
    return {
      name: feature.reference.written,
      id,
      version,
      digest: feature.digest,
      variables: featureVariables(featureOptionValues(feature.metadata.properties, feature.options)),
      containerEnv: added,
      archive: archives[at] ?? Buffer.alloc(0),
    }
  })
}

/** An image names its user as USER[:GROUP], by name or by number. */
function plainUser(user: string | undefined): string | undefined {
  const name = user?.split(':')[0]
  return name === undefined || name === '' ? undefined : name === '0' ? 'root' : name
}

/** SECURITY: CF-03. The word is a part of the volume's name; the project's own place is the other part. */
function volumesOf(
  { mounts }: DevcontainerPlan,
  evidence: (said: string) => Evidence,
): DevcontainerEnvironment['volumes'] {
  return mounts.flatMap(({ kind, source, target, isReadOnly }, at) => {
    if (kind !== 'volume') return []
    const word = (source ?? '')
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 32)
      .replace(/-+$/, '')
    const name = word === '' ? `mount-${at}` : word
    return [{ name, path: target, isReadOnly, evidence: evidence(`mounts ${source ?? target}`) }]
  })
}

/** /tmp and /run are in memory in every sandbox. */
function ephemeralOf(
  { mounts }: DevcontainerPlan,
  evidence: (said: string) => Evidence,
): DevcontainerEnvironment['ephemeral'] {
  return mounts.flatMap(({ kind, target, sizeMib }) =>
    kind === 'tmpfs' && !isNeverKept(target)
      ? [{ path: target, ...(sizeMib !== undefined && { sizeMib }), evidence: evidence(`mounts ${target}`) }]
      : [],
  )
}

function resourcesOf({ hostRequirements: { cpus, memoryMib, storageMib } }: DevcontainerPlan): ResourcesWish {
  return {
    ...(cpus > 0 && { cpus }),
    ...(memoryMib > 0 && { memoryMib }),
    ...(storageMib > 0 && { diskMib: storageMib }),
  }
}

/** Nothing is left out without a word. */
function refusedNotes({ document, plan, isInitializeGranted }: DevcontainerParts): string[] {
  const refused = plan.safety.filter(
    ({ verdict, property }) =>
      verdict === 'refused' || (property === 'initializeCommand' && !isInitializeGranted),
  )
  return refused.map(({ property, value, reason, evidence: { file, line }, verdict, origin }) => {
    const place = file === '' ? origin : `${document.file}${line === undefined ? '' : `:${line}`}`
    const why = verdict === 'refused' ? reason : 'it was not approved, and it never runs on this machine'
    return `${place}: ${property} ${value} is not used: ${why}`
  })
}
