/** A project's environment: what its files ask for, planned, built where it is not, and ready for sandboxes to begin with. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Built } from '../client/builds.ts'
import type { AgentPod } from '../client/client.ts'
import type { CreateOptions } from '../client/sandbox.ts'
import { type Detected, detect } from '../config/detect/detect.ts'
import { PROJECT_FILE, readProjectFile } from '../config/files.ts'
import type { NetworkWish } from '../config/network-table.ts'
import { languageWish } from '../config/plan/languages.ts'
import { listings } from '../config/plan/listings.ts'
import { type Lock, readLock } from '../config/plan/lock.ts'
import type { Plan } from '../config/plan/plan.ts'
import { type DraftRecipe, mirrorVariables, recipeOf, startOf } from '../config/plan/recipe.ts'
import { buildable, draftPlan } from '../config/plan/resolve.ts'
import { serviceOf } from '../config/plan/service-plan.ts'
import type { ClientPreset } from '../config/presets/catalog.ts'
import type { Preset } from '../config/presets/presets.ts'
import { onlyGranted, type ProjectData } from '../config/project/data.ts'
import { applyProfile } from '../config/project/profiles.ts'
import { fileTree } from '../config/tree.ts'
import { homeOf } from '../core/environment.ts'
import { type AgentPodError, invalid } from '../core/error.ts'
import type { Recipe, Step } from '../core/recipe.ts'
import { listProject } from '../sync/project.ts'
import { packContents } from '../sync/tar.ts'
import { systemClock } from '../util/clock.ts'
import { readInside } from '../util/read-inside.ts'
import type { CommandContext } from './command.ts'
import { combined, presetsOf } from './prepare-network.ts'

const LARGEST_READ = 1024 * 1024

/** The project as the commands know it. */
export interface ProjectFiles {
  readonly directory: string
  readonly name: string
  readonly files: readonly string[]
}

export interface PlanOptions {
  readonly base?: string | undefined
  /** The image that the command line names. */
  readonly image?: string | undefined
  readonly profile?: string | undefined
  /** Where it is built, and where its sandboxes are. */
  readonly provider?: string | undefined
  /** Whether agentpod.lock is passed over. */
  readonly isUnlocked?: boolean | undefined
}

/** A plan, and what it takes to build it. */
export interface PreparedPlan {
  readonly plan: Plan
  /** What its sandboxes may reach. */
  readonly wish: NetworkWish
  readonly recipe: Recipe
  readonly provider: string | undefined
  /** The digest of the base that agentpod.lock pins. */
  readonly lockedBase: string | undefined
  /** Archives that steps name, by digest. */
  readonly archives: ReadonlyMap<string, Buffer>
  /** For package managers that have words of their own for mirrors. */
  readonly mirrors: Readonly<Record<string, string>>
}

/** SECURITY: CF-02. Undefined where the project has no agentpod.toml and nothing is found in it. */
export async function planProject(
  ctx: CommandContext,
  project: ProjectFiles,
  o: PlanOptions = {},
): Promise<PreparedPlan | undefined> {
  const planned = await planOnly(ctx, project, o)
  if (!planned) return undefined
  const { wish, lock } = planned
  const plan = buildable(planned.plan)
  const presets = presetsOf(ctx)
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
    ...packed(draft, project),
  }
}

/** What is not available is in the plan's `refused`: such a plan is for looking at. */
export async function planOnly(
  ctx: CommandContext,
  project: ProjectFiles,
  o: PlanOptions,
): Promise<{ readonly plan: Plan; readonly wish: NetworkWish; readonly lock: Lock | undefined } | undefined> {
  const detected = detect(treeOf(project))
  const file = readProjectFile(project.directory)
  if (!file && o.profile !== undefined) throw noProfile(o.profile)
  const hasNothing =
    detected.findings.length + detected.packages.length + detected.notes.length === 0 &&
    detected.commands.setup === undefined
  const pod = await ctx.client()
  const isAsked = o.base !== undefined || o.image !== undefined
  const machine = o.provider === undefined ? undefined : await pod.builds.toolchains(o.provider)
  // Without the tools of this machine there is always something to install: git, at least.
  const isElsewhere = machine?.hasHost === false
  if (!file && hasNothing && !isAsked && !isElsewhere && detected.services.length === 0) return undefined
  const asked = file && (o.profile === undefined ? file.data : applyProfile(file.data, o.profile))
  const { wish } = await combined(ctx, project.directory, derivedOf(detected, asked))
  const data = asked && onlyGranted(asked, wish)
  const lock = o.isUnlocked ? undefined : readLock(project.directory)
  const presets = presetsOf(ctx)
  const plan = await draftPlan({
    name: project.name,
    detected,
    file: file && data && { name: PROJECT_FILE, data, lineOf: (path) => file.at(path)?.line },
    machine: machine ?? (await pod.builds.toolchains()),
    lists: listings({
      directory: join(ctx.home.root, 'cache'),
      now: () => systemClock.now(),
      registry: (name) => registryOf(name, presets),
    }),
    pinned: lock?.languages,
    locked: lock?.base,
    base: o.base,
    image: o.image,
  })
  return { plan, wish, lock }
}

function noProfile(name: string): AgentPodError {
  return invalid(
    'project.profile',
    `there is no profile ${JSON.stringify(name)}: this project has no ${PROJECT_FILE}`,
    `[profiles.${name}] in ${PROJECT_FILE} makes one; \`agentpod init\` writes the file`,
  )
}

/** What a directory's files say. */
export async function detectIn(ctx: CommandContext, directory: string): Promise<Detected> {
  const files = await listProject({ directory, exclude: [ctx.home.root], env: ctx.env })
  return detect(treeOf({ directory, files }))
}

/**
 * Package managers of the languages that the project uses: their hosts are part of having an environment, and need no other grant. A
 * language that its file turns off has none.
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

/** SECURITY: CF-02. Only plain, small files that really lie in the project are read. */
export function treeOf({
  directory,
  files,
}: Pick<ProjectFiles, 'directory' | 'files'>): ReturnType<typeof fileTree> {
  const root = realpathSync(directory)
  return fileTree(files, (path) => {
    const data = readInside(root, path, LARGEST_READ)?.data
    return data === undefined || data.subarray(0, 4096).includes(0) ? undefined : data.toString('utf8')
  })
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
    const digest = sha256(archive)
    archives.set(digest, archive)
    const entries = Object.fromEntries(contents.map(({ path, data }) => [path, sha256(data).slice(0, 16)]))
    return { ...rest, files: { digest, to: workspaceOf(step, project), entries } }
  })
  return { recipe: { base: draft.base, steps }, archives }
}

function workspaceOf(step: Step, project: ProjectFiles): string {
  return `${homeOf(step.user)}/${project.name}`
}

function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}

/** What a new sandbox is asked to be, for a plan that is built. */
export function environmentOf(
  plan: Plan,
  digest: string | undefined,
): NonNullable<CreateOptions['environment']> {
  return {
    base: plan.ground.base,
    ...(plan.ground.image !== undefined && { image: plan.ground.image }),
    digest,
    path: [...plan.path],
    variables: Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
    user: plan.user,
    sudo: plan.sudo,
    services: plan.services.map((service) => {
      const { ready, ...rest } = serviceOf(service, plan)
      return { ...rest, variables: { ...rest.variables }, ready: { ...ready } }
    }),
    start: startOf(plan),
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
