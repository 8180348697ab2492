/** Plans a project's environment from its files, and builds it. */

import { realpathSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { join } from 'node:path'
import type { BuildOptions, Built, BuiltDockerfile } from '../../client/builds.ts'
import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions } from '../../client/sandbox.ts'
import type { ServiceSettings } from '../../config/compose/service-settings.ts'
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import { type Detected, detect } from '../../config/detect/detect.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import { addonService } from '../../config/plan/addons/addon-plan.ts'
import type { ImageFacts } from '../../config/plan/devcontainer/devcontainer-environment.ts'
import { containerService } from '../../config/plan/devcontainer/entrypoint-service.ts'
import { languageWish } from '../../config/plan/languages/language-plan.ts'
import { registryVersions } from '../../config/plan/languages/registry-versions.ts'
import { type Lock, readLock } from '../../config/plan/lock.ts'
import type { Plan } from '../../config/plan/plan.ts'
import type { PlanInput } from '../../config/plan/plan-input.ts'
import { type DraftStep, mirrorVariables } from '../../config/plan/recipe/draft-step.ts'
import { hasFlakes, requireFlakeHosts } from '../../config/plan/recipe/nix-step.ts'
import { type DraftRecipe, recipeOf, startCommand } from '../../config/plan/recipe/recipe.ts'
import { formatPresets } from '../../config/plan/resolve/format-setup.ts'
import { draftPlan, requireBuildable } from '../../config/plan/resolve/resolve.ts'
import { engineService } from '../../config/plan/services/service-plan.ts'
import { usedBase } from '../../config/plan/used-base.ts'
import type { EnvironmentPreset } from '../../config/presets/catalog.ts'
import type { Preset } from '../../config/presets/presets.ts'
import { onlyGranted, type ProjectData } from '../../config/project/data.ts'
import type { FoundBase } from '../../config/project/found-base.ts'
import { applyProfile } from '../../config/project/profiles.ts'
import type { ProjectFile } from '../../config/project/project-file.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { atDigest, imageText, parseImageRef } from '../../core/image-ref.ts'
import type { NetworkRule } from '../../core/network.ts'
import type { Recipe, Step } from '../../core/recipe.ts'
import { listProject } from '../../sync/project-files.ts'
import { packContents } from '../../sync/tar.ts'
import { systemClock } from '../../util/clock.ts'
import { readListed } from '../../util/file/read-inside.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { type ComposeOptions, withoutServices } from '../compose/project-compose.ts'
import { devcontainerStart } from '../devcontainer/lifecycle-scripts.ts'
import {
  askedDevcontainer,
  CONTAINER_PRESETS,
  grantedDevcontainer,
  moreWishes,
} from '../devcontainer/plan-devcontainer.ts'
import type { DevcontainerRequest } from '../devcontainer/read-devcontainer.ts'
import { imageFacts } from '../devcontainer/resolve-devcontainer.ts'
import { buildProjectDockerfile, projectImage } from '../dockerfile/project-dockerfile.ts'
import { combinedWish, isBaseApproved, prepareNetwork, presetsOf } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import { buildCallbacks } from './build-callbacks.ts'
import { hasNothing, type ProjectFiles, treeOf } from './detect-project.ts'

export interface EnvironmentPlanOptions {
  readonly base?: string | undefined
  readonly image?: string | undefined
  readonly profile?: string | undefined
  /** The provider that builds it and runs its sandboxes. */
  readonly provider?: string | undefined
  /** What the files ask for, if they were looked at already. */
  readonly detected?: Detected | undefined
  /** Whether the plan is only written down: then an image or Dockerfile of another file needs no approval. */
  readonly isWritten?: boolean | undefined
  /** Whether to ignore agentpod.toml. */
  readonly isFileIgnored?: boolean | undefined
  /** One of several devcontainers, by name or path. */
  readonly devcontainer?: string | undefined
  /** Whether to ignore devcontainer.json. */
  readonly isWithoutDevcontainer?: boolean | undefined
  /** The service of a compose file that the project is, and its base, if the user has approved the file. */
  readonly service?: ServiceSettings | undefined
  readonly approvedBase?: FoundBase | undefined
  /** How the compose files of a devcontainer are used. */
  readonly compose?: ComposeOptions | undefined
  /** Run no lifecycle commands of a devcontainer. */
  readonly isWithoutLifecycle?: boolean | undefined
  readonly isInteractive?: boolean | undefined
  /** Settings of the image, if it is there already. */
  readonly imageFacts?: ImageFacts | undefined
  /** Whether to ignore agentpod.lock. */
  readonly isUnlocked?: boolean | undefined
  /** How a build of the project's Dockerfile is reported; to the person if left out. */
  readonly dockerfile?: Pick<BuildOptions, 'keepFailed' | 'onProgress' | 'onStep' | 'onOutput'> | undefined
}

/** A plan with everything that building it needs. */
export interface PreparedPlan {
  readonly plan: Plan
  /** The hosts that its sandboxes may reach. */
  readonly wish: NetworkWish
  readonly recipe: Recipe
  readonly provider: string | undefined
  /** The image of the project's Dockerfile, if it starts from one. */
  readonly dockerfile?: BuiltDockerfile | undefined
  /** The digest of the base that agentpod.lock pins. */
  readonly lockedBase: string | undefined
  /** Archives that steps name, by digest. */
  readonly archives: ReadonlyMap<string, Buffer>
  /** Variables that name mirrors, for package managers that have their own. */
  readonly mirrors: Readonly<Record<string, string>>
}

/** SECURITY: CF-02. Undefined when the project has no agentpod.toml and nothing is detected in it. */
export async function planProject(
  bench: Workbench,
  project: ProjectFiles,
  o: EnvironmentPlanOptions = {},
): Promise<PreparedPlan | undefined> {
  const planned = await planOnly(bench, project, o)
  if (!planned) return undefined
  const { wish, lock } = planned
  const buildable = requireBuildable(planned.plan)
  checkRequirements(buildable)
  const approved =
    buildable.devcontainer || hasFlakes(buildable)
      ? (await prepareNetwork(bench, {}, { wish: { ...wish, secrets: [] } })).network.allow
      : undefined
  const hosts = (approved ?? []) as readonly NetworkRule[]
  requireFlakeHosts(buildable, hosts)
  const dockerfile = await builtDockerfile(bench, project, planned, o)
  const plan = atImage(
    await withImageFacts(bench, project, buildable, { ...o, built: dockerfile?.image?.ref }),
    dockerfile?.image,
  )
  const presets = presetsOf(bench)
  const found = await Promise.all(
    plan.presets.map(async ({ name }) => [name, await presets.get(name)] as const),
  )
  const draft = recipeOf(plan, new Map<EnvironmentPreset, Preset>(found), lock, hosts)
  const variables = Object.assign({}, ...found.map(([, preset]) => preset.variables)) as Record<
    string,
    string
  >
  return {
    plan,
    wish,
    lockedBase: lock?.base.digest,
    mirrors: mirrorVariables(plan, variables),
    provider: o.provider,
    ...(dockerfile && { dockerfile }),
    ...packed(draft, project, plan),
  }
}

/**
 * The plan of a devcontainer once its image is there: the image's label and user are part of it.
 */
async function withImageFacts(
  bench: Workbench,
  project: ProjectFiles,
  plan: Plan,
  o: EnvironmentPlanOptions & { readonly built: string | undefined },
): Promise<Plan> {
  const ref = o.built ?? plan.resolvedBase.image
  if (!plan.devcontainer || ref === undefined) return plan
  const facts = await imageFacts(bench, ref, { provider: o.provider, isPulled: true })
  const again = await planOnly(bench, project, { ...o, imageFacts: facts ?? NO_FACTS })
  return again ? requireBuildable(again.plan) : plan
}

const NO_FACTS: ImageFacts = { variables: {}, labels: {} }

/** Fails before anything is built. */
function checkRequirements({ devcontainer, resources }: Plan): void {
  if (!devcontainer) return
  const { cpus = 0, memoryMib = 0 } = resources
  const lacking = [
    ...(cpus > availableParallelism() ? [`${cpus} processors; it has ${availableParallelism()}`] : []),
    ...(memoryMib > totalmem() / 2 ** 20
      ? [`${memoryMib} MiB of memory; it has ${Math.floor(totalmem() / 2 ** 20)}`]
      : []),
  ]
  if (lacking.length === 0) return
  const line = devcontainer.evidence(['hostRequirements'], '').line
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'devcontainer.requirements',
    message: `${devcontainer.file}${line === undefined ? '' : `:${line}`} needs a machine with ${lacking.join(', and ')}`,
    hint: 'lower hostRequirements, or set [resources] cpus and memory in agentpod.toml, which go first',
  })
}

/**
 * The plan on exactly this image. Its name alone is not enough: a copy of the project that was prepared on an
 * earlier image of that name would be used again.
 */
function atImage(plan: Plan, image: BuiltDockerfile['image']): Plan {
  if (!image) return plan
  const ref = imageText(atDigest(parseImageRef(image.ref), image.digest))
  return { ...plan, resolvedBase: { ...plan.resolvedBase, image: ref } }
}

async function builtDockerfile(
  bench: Workbench,
  project: ProjectFiles,
  { plan, wish }: PlannedProject,
  o: EnvironmentPlanOptions,
): Promise<BuiltDockerfile | undefined> {
  const { dockerfile } = plan.resolvedBase
  if (!dockerfile) return undefined
  const { evidence } = plan.base
  const asked = { dockerfile, wish, evidence, timeoutMs: plan.resources.stepMs }
  const { provider } = o
  if (o.dockerfile) return await buildProjectDockerfile(bench, project, asked, { ...o.dockerfile, provider })
  using progress = bench.person.progress({ project: plan.name, isDockerfile: true })
  try {
    const callbacks = buildCallbacks(progress)
    return await buildProjectDockerfile(bench, project, asked, { ...callbacks, provider })
  } catch (error) {
    progress.failed(error)
    throw error
  }
}

/** A plan, the hosts that its sandboxes may reach, and the lock that it follows. */
export interface PlannedProject {
  readonly plan: Plan
  readonly wish: NetworkWish
  readonly lock: Lock | undefined
}

/** A plan to look at: what is not available is in its `refused`. */
export async function planOnly(
  bench: Workbench,
  project: ProjectFiles,
  o: EnvironmentPlanOptions,
): Promise<PlannedProject | undefined> {
  const detected = o.detected ?? detect(treeOf(project))
  const file = o.isFileIgnored ? undefined : readProjectFile(project.directory)
  if (!file && o.profile !== undefined) throw noProfile(o.profile)
  const request = await askedDevcontainer(bench, project, o)
  const pod = await bench.client()
  const isAsked = o.base !== undefined || o.image !== undefined
  const machine = o.provider === undefined ? undefined : await pod.builds.toolchains(o.provider)
  // Without the host's tools there is always something to install: at least git.
  const isElsewhere = machine?.hasHost === false
  if (!file && !request && !isAsked && !isElsewhere && hasNothing(detected)) return undefined
  const asked = file && (o.profile === undefined ? file.data : applyProfile(file.data, o.profile))
  const derived = [...derivedOf(detected, asked), ...(request ? CONTAINER_PRESETS : [])]
  const { wish } = await combinedWish(bench, project.directory, derived, request && moreWishes(request))
  const devcontainer = request && (await grantedDevcontainer(bench, project, request, { ...o, wish }))
  const own = asked ?? (devcontainer ? request?.tables : undefined)
  const data = own && onlyGranted(own, wish)
  const lock = o.isUnlocked ? undefined : readLock(project.directory)
  const found = isAsked || devcontainer ? undefined : usedBase(detected.bases, asked, lock)
  const isApproved =
    found !== undefined &&
    (o.isWritten === true ||
      found === o.approvedBase ||
      (await isBaseApproved(bench, project.directory, found)))
  const foundBase = isApproved ? found : undefined
  const presets = presetsOf(bench)
  const input: PlanInput = {
    name: project.name,
    detected,
    file: data && {
      name: file ? PROJECT_FILE : (request?.document.file ?? PROJECT_FILE),
      data,
      lineOf: (path) => (file ?? tablesIn(request))?.at(path)?.line,
    },
    devcontainer,
    machine:
      machine ??
      (await pod.builds.toolchains(undefined, {
        host: !foundBase && !isOnImage(data, o) && devcontainer === undefined,
      })),
    lists: registryVersions({
      directory: join(bench.home.root, 'cache'),
      now: () => systemClock.now(),
      registry: (name) => registryOf(name, presets),
    }),
    pinned: lock?.languages,
    locked: lock?.base,
    base: o.base,
    image: o.image,
    foundBase,
    service: o.service,
    dockerfileImage: projectImage(project),
  }
  const plan = await draftPlan(input)
  // The services run beside the sandbox, as members of its group.
  if (!plan.devcontainer?.base.group) return { plan, wish, lock }
  return { plan: await draftPlan({ ...input, detected: withoutServices(detected) }), wish, lock }
}

/** Positions of `customizations.agentpod`, by the paths of agentpod.toml. */
function tablesIn(request: DevcontainerRequest | undefined): Pick<ProjectFile, 'at'> | undefined {
  return request && { at: (path) => request.document.at(['customizations', 'agentpod', ...path]) }
}

/** A plan on an image uses no tools of this machine, and looking for them takes a while. */
function isOnImage(data: ProjectData | undefined, o: EnvironmentPlanOptions): boolean {
  const { image, dockerfile } = data?.environment ?? {}
  return o.base === undefined && (o.image !== undefined || image !== undefined || dockerfile !== undefined)
}

function noProfile(name: string): AgentPodError {
  return invalid(
    'project.profile',
    `there is no profile ${JSON.stringify(name)}: this project has no ${PROJECT_FILE}`,
    `\`agentpod init\` writes the file; then add [profiles.${name}]`,
  )
}

/** Detects what a directory's files ask for. */
export async function detectIn(bench: Workbench, directory: string): Promise<Detected> {
  const files = await listProject({ directory, exclude: [bench.home.root], env: bench.env })
  return detect(treeOf({ directory, files }))
}

/**
 * Presets of the package managers that the project's languages use. An environment needs their hosts, so they
 * need no grant. A language that the file turns off has none.
 */
export function derivedOf({ findings, formats }: Detected, data: ProjectData | undefined): string[] {
  const used = findings.filter(({ language }) => languageWish(data, language) !== false)
  return [...new Set([...used.flatMap(({ presets }) => presets), ...formatPresets({ formats })])]
}

async function registryOf(
  name: 'npm' | 'go',
  presets: ReturnType<typeof presetsOf>,
): Promise<string | undefined> {
  const { variables, hosts } = await presets.get(name)
  const said = name === 'npm' ? variables['npm_config_registry'] : variables['GOPROXY']?.split(/[,|]/)[0]
  return said ?? (hosts[0] === undefined ? undefined : `https://${hosts[0]}/`)
}

const LARGEST_INPUT = 64 * 1024 * 1024

function packed(
  draft: DraftRecipe,
  project: ProjectFiles,
  { workspace }: Pick<Plan, 'workspace'>,
): { readonly recipe: Recipe; readonly archives: Map<string, Buffer> } {
  const archives = new Map<string, Buffer>()
  const root = realpathSync(project.directory)
  const listed = new Set(project.files)
  const isListed = (path: string): boolean => listed.has(path)
  const steps = draft.steps.map((step): Step => {
    const { inputs, archive: own, ...rest } = step
    if (own) return { ...rest, files: addedFiles(own, archives) }
    if (!inputs) return rest
    const contents = [
      ...Object.entries(inputs.stubs).map(([path, text]) => ({
        path,
        data: Buffer.from(text),
        isExecutable: false,
      })),
      ...inputs.files.flatMap((path) => {
        const read = readListed(root, path, { isListed, mostBytes: LARGEST_INPUT })
        return read ? [{ path, ...read }] : []
      }),
    ]
    const archive = packContents([...new Map(contents.map((one) => [one.path, one])).values()])
    const digest = sha256Hex(archive)
    archives.set(digest, archive)
    const entries = Object.fromEntries(contents.map(({ path, data }) => [path, sha256Hex(data).slice(0, 16)]))
    return { ...rest, files: { digest, to: workspace, entries } }
  })
  return { recipe: { base: draft.base, steps }, archives }
}

/** Both archives end with two blocks of zeros; files that are added replace those of the first one. */
const TAR_END = 1024

function addedFiles(
  { to, data, added, label }: NonNullable<DraftStep['archive']>,
  archives: Map<string, Buffer>,
): NonNullable<Step['files']> {
  const texts = Object.entries(added).map(([path, text]) => ({
    path,
    data: Buffer.from(text),
    isExecutable: false,
  }))
  const archive = Buffer.concat([data.subarray(0, data.length - TAR_END), packContents(texts)])
  const digest = sha256Hex(archive)
  archives.set(digest, archive)
  return { digest, to, entries: { [label]: sha256Hex(data).slice(0, 16) } }
}

/** The environment options of a new sandbox, for a built plan. */
function startOf(plan: Plan, isInteractive: boolean): string | undefined {
  const scripts = [devcontainerStart(plan, isInteractive), startCommand(plan)].filter(
    (one) => one !== undefined,
  )
  return scripts.length === 0 ? undefined : scripts.join('\n')
}

/** `isInteractive`: a person does not wait for what a devcontainer runs in the background. */
export function environmentOf(
  plan: Plan,
  digest: string | undefined,
  isInteractive = false,
): NonNullable<CreateOptions['environment']> {
  const container = plan.devcontainer && containerService(plan.devcontainer)
  return {
    base: plan.resolvedBase.base,
    ...(plan.resolvedBase.image !== undefined && { image: plan.resolvedBase.image }),
    digest,
    path: [...plan.path],
    variables: Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
    ...(plan.unset.length > 0 && { unset: plan.unset.map(({ name }) => name) }),
    user: plan.user,
    sudo: plan.sudo,
    services: [
      ...plan.services.map((service) => engineService(service, plan)),
      ...plan.addons.map((addon) => addonService(addon, plan)),
      ...(container ? [container] : []),
    ].map(({ ready, ...rest }) => {
      return { ...rest, variables: { ...rest.variables }, ready: { ...ready } }
    }),
    start: startOf(plan, isInteractive),
  }
}

export async function buildPlan(
  pod: AgentPod,
  prepared: PreparedPlan,
  o: Parameters<AgentPod['builds']['build']>[1],
): Promise<Built> {
  const { recipe, archives, plan } = prepared
  return pod.builds.build(recipe as Parameters<AgentPod['builds']['build']>[0], {
    project: plan.name,
    provider: prepared.provider,
    files: (wanted) => archives.get(wanted) ?? Buffer.alloc(0),
    ...o,
  })
}
