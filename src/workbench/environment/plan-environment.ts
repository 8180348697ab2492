/** Plans a project's environment from its files, and builds it. */

import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { BuildOptions, Built, BuiltDockerfile } from '../../client/builds.ts'
import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions } from '../../client/sandbox.ts'
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import { type Detected, detect } from '../../config/detect/detect.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import { languageWish } from '../../config/plan/languages/language-plan.ts'
import { registryVersions } from '../../config/plan/languages/registry-versions.ts'
import { type Lock, readLock } from '../../config/plan/lock.ts'
import type { Plan } from '../../config/plan/plan.ts'
import { mirrorVariables } from '../../config/plan/recipe/draft-step.ts'
import { type DraftRecipe, recipeOf, startCommand } from '../../config/plan/recipe/recipe.ts'
import { draftPlan, requireBuildable } from '../../config/plan/resolve/resolve.ts'
import { engineService } from '../../config/plan/services/service-plan.ts'
import type { ClientPreset } from '../../config/presets/catalog.ts'
import type { Preset } from '../../config/presets/presets.ts'
import { onlyGranted, type ProjectData } from '../../config/project/data.ts'
import { applyProfile } from '../../config/project/profiles.ts'
import { homeOf } from '../../core/environment.ts'
import { type AgentPodError, invalid } from '../../core/error.ts'
import { atDigest, imageText, parseImageRef } from '../../core/image-ref.ts'
import type { Recipe, Step } from '../../core/recipe.ts'
import { listProject } from '../../sync/project-files.ts'
import { packContents } from '../../sync/tar.ts'
import { systemClock } from '../../util/clock.ts'
import { readInside } from '../../util/file/read-inside.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { buildProjectDockerfile, projectImage } from '../dockerfile/project-dockerfile.ts'
import { combinedWish, presetsOf } from '../network/prepare-network.ts'
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
  const dockerfile = await builtDockerfile(bench, project, planned, o)
  const plan = atImage(buildable, dockerfile?.image)
  const presets = presetsOf(bench)
  const found = await Promise.all(
    plan.presets.map(async ({ name }) => [name, await presets.get(name)] as const),
  )
  const draft = recipeOf(plan, new Map<ClientPreset, Preset>(found), lock)
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
    ...packed(draft, project),
  }
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
  const { line } = plan.base.evidence
  const asked = { dockerfile, wish, line, timeoutMs: plan.resources.stepMs }
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
  const file = readProjectFile(project.directory)
  if (!file && o.profile !== undefined) throw noProfile(o.profile)
  const pod = await bench.client()
  const isAsked = o.base !== undefined || o.image !== undefined
  const machine = o.provider === undefined ? undefined : await pod.builds.toolchains(o.provider)
  // Without the host's tools there is always something to install: at least git.
  const isElsewhere = machine?.hasHost === false
  if (!file && !isAsked && !isElsewhere && hasNothing(detected)) return undefined
  const asked = file && (o.profile === undefined ? file.data : applyProfile(file.data, o.profile))
  const { wish } = await combinedWish(bench, project.directory, derivedOf(detected, asked))
  const data = asked && onlyGranted(asked, wish)
  const lock = o.isUnlocked ? undefined : readLock(project.directory)
  const presets = presetsOf(bench)
  const plan = await draftPlan({
    name: project.name,
    detected,
    file: file && data && { name: PROJECT_FILE, data, lineOf: (path) => file.at(path)?.line },
    machine: machine ?? (await pod.builds.toolchains(undefined, { host: !isOnImage(data, o) })),
    lists: registryVersions({
      directory: join(bench.home.root, 'cache'),
      now: () => systemClock.now(),
      registry: (name) => registryOf(name, presets),
    }),
    pinned: lock?.languages,
    locked: lock?.base,
    base: o.base,
    image: o.image,
    dockerfileImage: projectImage(project),
  })
  return { plan, wish, lock }
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
export function derivedOf({ findings }: Detected, data: ProjectData | undefined): string[] {
  const used = findings.filter(({ language }) => languageWish(data, language) !== false)
  return [...new Set(used.flatMap(({ presets }) => presets))]
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
): { readonly recipe: Recipe; readonly archives: Map<string, Buffer> } {
  const archives = new Map<string, Buffer>()
  const root = realpathSync(project.directory)
  const steps = draft.steps.map((step): Step => {
    const { inputs, ...rest } = step
    if (!inputs) return rest
    const contents = [
      ...Object.entries(inputs.stubs).map(([path, text]) => ({
        path,
        data: Buffer.from(text),
        isExecutable: false,
      })),
      ...inputs.files.flatMap((path) => {
        const read = readInside(root, path, LARGEST_INPUT)
        return read ? [{ path, ...read }] : []
      }),
    ]
    const archive = packContents([...new Map(contents.map((one) => [one.path, one])).values()])
    const digest = sha256Hex(archive)
    archives.set(digest, archive)
    const entries = Object.fromEntries(contents.map(({ path, data }) => [path, sha256Hex(data).slice(0, 16)]))
    return { ...rest, files: { digest, to: workspaceOf(step, project), entries } }
  })
  return { recipe: { base: draft.base, steps }, archives }
}

function workspaceOf(step: Step, project: ProjectFiles): string {
  return `${homeOf(step.user)}/${project.name}`
}

/** The environment options of a new sandbox, for a built plan. */
export function environmentOf(
  plan: Plan,
  digest: string | undefined,
): NonNullable<CreateOptions['environment']> {
  return {
    base: plan.resolvedBase.base,
    ...(plan.resolvedBase.image !== undefined && { image: plan.resolvedBase.image }),
    digest,
    path: [...plan.path],
    variables: Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
    user: plan.user,
    sudo: plan.sudo,
    services: plan.services.map((service) => {
      const { ready, ...rest } = engineService(service, plan)
      return { ...rest, variables: { ...rest.variables }, ready: { ...ready } }
    }),
    start: startCommand(plan),
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
