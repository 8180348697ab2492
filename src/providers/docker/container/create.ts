/** Creates and starts the container of a sandbox. */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import type { Created, CreatePlan } from '../../../core/provider.ts'
import type { Random } from '../../../util/random.ts'
import type { Daemon } from '../daemon/daemon.ts'
import type { DaemonLimits } from '../daemon/daemon-limits.ts'
import type { Info } from '../daemon/responses.ts'
import type { ImageStore } from '../image/image-store.ts'
import { parseRoot, rootRef } from '../image/root-ref.ts'
import type { RootImages, StartImage } from '../image/roots.ts'
import {
  COMPOSED_LABEL,
  containerName,
  DEADLINE_LABEL,
  LAYER_LABEL,
  OWN_LAYERS_LABEL,
  OWNER_LABEL,
  ROOT_LABEL,
  SANDBOX_LABEL,
  SNAPSHOT_LABEL,
  TOKEN_LABEL,
  WHEN_OVER_LABEL,
} from '../names.ts'
import { containerBody } from './container-body.ts'
import { handleOf, observedOf, sandboxOf } from './container-state.ts'
import type { Containers } from './containers.ts'
import { type InitialFiles, initialArchive, readAccounts, unsafeImage } from './initial-files.ts'
import type { PoddVolume } from './podd-volume.ts'

const TOKEN_BYTES = 32
const MACHINE_ID_BYTES = 16
const MOST_CACHED_IMAGES = 200
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)$/
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface CreatorOptions {
  readonly daemon: Daemon
  readonly containers: Containers
  readonly limits: DaemonLimits
  readonly images: ImageStore
  readonly roots: RootImages
  readonly volume: PoddVolume
  readonly random: Random
}

export class ContainerCreator {
  readonly #options: CreatorOptions
  /** The files that each image lacks, by image id. */
  readonly #initialFiles = new Map<string, InitialFiles>()

  constructor(options: CreatorOptions) {
    this.#options = options
  }

  async create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    const { limits, roots } = this.#options
    const info = await limits.info(o)
    limits.refuseMissing(plan.required, limits.levels(info, plan.resources.files))
    const ground = await roots.imageOf(parseRoot(plan.root), plan.snapshot, o)
    const made = await this.#made(plan, ground, info, o)
    return this.created(plan, { id: made.id, labels: made.labels, env: ground.image.env }, info)
  }

  created(
    plan: CreatePlan,
    container: {
      readonly id: string
      readonly labels: Readonly<Record<string, string>>
      readonly env: readonly string[]
    },
    info: Info,
  ): Created {
    return {
      handle: handleOf(container.id, container.labels),
      limits: this.#options.limits.levels(info, plan.resources.files),
      env: variablesOf(container.env),
      network: {
        level: 'proxy',
        reason:
          'programs must use the proxy: Docker cannot redirect their connections without extra privileges',
      },
    }
  }

  /** Retries without a setting that the daemon turns out not to support, unless it was requested. */
  async #made(plan: CreatePlan, ground: StartImage, info: Info, o: CallOptions): Promise<Made> {
    const { containers, limits, images, volume } = this.#options
    try {
      return await this.#make(plan, ground, info, o)
    } catch (error) {
      if (isAgentPodError(error, 'conflict')) return this.#existing(plan, o)
      await containers.undo(plan)
      const words = isAgentPodError(error) ? error.message : ''
      if (/rlimit/i.test(words) && limits.files(plan.resources.files) !== undefined)
        limits.refuseFiles(plan.resources.files)
      else if (/storage-opt|pquota/i.test(words) && limits.limitsDisk(info)) limits.refuseDisk()
      else if (/podd.*no such file/i.test(words)) volume.forget()
      else {
        images.forget()
        throw /cannot overwrite/i.test(words) ? unsafeImage(error) : error
      }
      limits.refuseMissing(plan.required, limits.levels(info, plan.resources.files))
      return this.#make(plan, ground, info, o).catch(async (again) => {
        await containers.undo(plan)
        throw again
      })
    }
  }

  async #make(plan: CreatePlan, ground: StartImage, info: Info, o: CallOptions): Promise<Made> {
    const { containers, limits, volume, random } = this.#options
    const { image } = ground
    const labels = labelsOf(plan, ground.ownLayers, Buffer.from(random.bytes(TOKEN_BYTES)).toString('hex'))
    const body = containerBody({
      plan,
      image: image.id,
      labels,
      volume: await volume.ensure(image.id),
      files: limits.files(plan.resources.files),
      diskIsLimited: limits.limitsDisk(info),
    })
    const id = await containers.make(plan, body, o)
    const identity = {
      hostname: plan.hostname,
      machineId: Buffer.from(random.bytes(MACHINE_ID_BYTES)).toString('hex'),
      token: labels[TOKEN_LABEL] ?? '',
    }
    await containers.putArchive(id, initialArchive(await this.#initialFilesOf(image.id, id, o), identity), o)
    await containers.post(id, 'start', {}, o)
    return { id, labels }
  }

  /** The container of an earlier create. One that was left incomplete is removed and created again. */
  async #existing(plan: CreatePlan, o: CallOptions): Promise<Made> {
    const { containers, limits } = this.#options
    const found = await containers.look(containerName(plan.owner, plan.sandboxId), o)
    if (found?.State.Status === 'created') {
      await containers.remove(found.Id, o)
      return this.#makeAgain(plan, o)
    }
    if (!found) return this.#makeAgain(plan, o)
    if (found.Config.Labels[OWNER_LABEL] !== plan.owner || sandboxOf(found.Config.Labels) !== plan.sandboxId)
      throw foreign(found.Name)
    if (observedOf(found).state === 'stopped') throw foreign(found.Name)
    await limits.info(o)
    return { id: found.Id, labels: found.Config.Labels }
  }

  async #makeAgain(plan: CreatePlan, o: CallOptions): Promise<Made> {
    const { limits, roots, containers } = this.#options
    const ground = await roots.imageOf(parseRoot(plan.root), plan.snapshot, o)
    return this.#make(plan, ground, await limits.info(o), o).catch(async (error) => {
      await containers.undo(plan)
      throw error
    })
  }

  async #initialFilesOf(image: string, container: string, o: CallOptions): Promise<InitialFiles> {
    const known = this.#initialFiles.get(image)
    if (known) return known
    const found = await readAccounts(this.#options.daemon, container, o)
    if (this.#initialFiles.size >= MOST_CACHED_IMAGES) this.#initialFiles.clear()
    this.#initialFiles.set(image, found)
    return found
  }
}

interface Made {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

function labelsOf(plan: CreatePlan, ownLayers: number, token: string): Record<string, string> {
  return {
    [OWNER_LABEL]: plan.owner,
    [SANDBOX_LABEL]: plan.sandboxId,
    [TOKEN_LABEL]: token,
    [DEADLINE_LABEL]: String(plan.deadlineAt),
    [WHEN_OVER_LABEL]: plan.whenOver,
    [ROOT_LABEL]: JSON.stringify(rootRef(parseRoot(plan.root))),
    // The image's own labels would show on the container.
    [SNAPSHOT_LABEL]: plan.snapshot ?? '',
    [OWN_LAYERS_LABEL]: String(ownLayers),
    [LAYER_LABEL]: '',
    [COMPOSED_LABEL]: '',
  }
}

/**
 * SECURITY: the variables of an image are untrusted: malformed ones are dropped, and podd checks the rest.
 */
export function variablesOf(env: readonly string[]): Record<string, string> {
  const found: Record<string, string> = { PATH: DEFAULT_PATH }
  for (const text of env) {
    const [, name, value] = VARIABLE.exec(text) ?? []
    if (name !== undefined && value !== undefined) found[name] = value
  }
  return found
}

function foreign(name: string): AgentPodError {
  return new AgentPodError({
    code: 'already_exists',
    reason: 'docker.name',
    message: `another container has the name ${name.slice(1, 100)}`,
    hint: 'remove it with `docker rm -f` if it is not needed',
  })
}
