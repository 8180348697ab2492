/** From a plan to a running container. */
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Created, CreatePlan } from '../../core/provider.ts'
import type { Random } from '../../util/random.ts'
import type { Info } from './answers.ts'
import { containerBody } from './container-body.ts'
import type { Containers } from './containers.ts'
import type { Daemon } from './daemon.ts'
import type { DaemonLimits } from './daemon-limits.ts'
import { type Furnishing, furnishingArchive, lookForAccounts, unsafeImage } from './furnish.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import {
  COMPOSED,
  containerName,
  DEADLINE,
  LAYER,
  OWN_LAYERS,
  OWNER,
  ROOT,
  SANDBOX,
  SNAPSHOT,
  TOKEN,
  WHEN_OVER,
} from './names.ts'
import { handleOf, observedOf, sandboxOf } from './observed.ts'
import type { PoddVolume } from './podd-volume.ts'
import { parseRoot, rootRef } from './root-ref.ts'
import type { Ground, Roots } from './roots.ts'

const TOKEN_BYTES = 32
const MACHINE_ID_BYTES = 16
const MOST_FURNISHINGS = 200
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)$/
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface CreatorOptions {
  readonly daemon: Daemon
  readonly containers: Containers
  readonly limits: DaemonLimits
  readonly images: ImageStore
  readonly roots: Roots
  readonly volume: PoddVolume
  readonly random: Random
}

export class Creator {
  readonly #options: CreatorOptions
  /** What each image lacks, by its id. */
  readonly #furnishings = new Map<string, Furnishing>()

  constructor(options: CreatorOptions) {
    this.#options = options
  }

  async create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    const { limits, roots } = this.#options
    const info = await limits.info(o)
    limits.refuseMissing(plan.required, limits.levels(info, plan.resources.files))
    const ground = await roots.imageOf(parseRoot(plan.root), plan.snapshot, o)
    const made = await this.#made(plan, ground, info, o)
    return this.created(plan, made.id, made.labels, ground.image, info)
  }

  created(
    plan: CreatePlan,
    id: string,
    labels: Readonly<Record<string, string>>,
    image: Pick<ImageInfo, 'env'>,
    info: Info,
  ): Created {
    return {
      handle: handleOf(id, labels),
      limits: this.#options.limits.levels(info, plan.resources.files),
      env: variablesOf(image.env),
      network: {
        level: 'proxy',
        reason:
          'programs have to use the proxy: Docker gives no way to redirect their connections without privileges',
      },
    }
  }

  /** Tries again without what the daemon turns out not to be able to do, unless that was asked for. */
  async #made(plan: CreatePlan, ground: Ground, info: Info, o: CallOptions): Promise<Made> {
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

  async #make(plan: CreatePlan, ground: Ground, info: Info, o: CallOptions): Promise<Made> {
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
      token: labels[TOKEN] ?? '',
    }
    await containers.putArchive(id, furnishingArchive(await this.#furnishing(image.id, id, o), identity), o)
    await containers.post(id, 'start', {}, o)
    return { id, labels }
  }

  /** The first create's container, or what it left when it was cut off: that is made anew. */
  async #existing(plan: CreatePlan, o: CallOptions): Promise<Made> {
    const { containers, limits } = this.#options
    const found = await containers.look(containerName(plan.owner, plan.sandboxId), o)
    if (found?.State.Status === 'created') {
      await containers.remove(found.Id, o)
      return this.#makeAgain(plan, o)
    }
    if (!found) return this.#makeAgain(plan, o)
    if (found.Config.Labels[OWNER] !== plan.owner || sandboxOf(found.Config.Labels) !== plan.sandboxId)
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

  async #furnishing(image: string, container: string, o: CallOptions): Promise<Furnishing> {
    const known = this.#furnishings.get(image)
    if (known) return known
    const found = await lookForAccounts(this.#options.daemon, container, o)
    if (this.#furnishings.size >= MOST_FURNISHINGS) this.#furnishings.clear()
    this.#furnishings.set(image, found)
    return found
  }
}

interface Made {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

function labelsOf(plan: CreatePlan, ownLayers: number, token: string): Record<string, string> {
  return {
    [OWNER]: plan.owner,
    [SANDBOX]: plan.sandboxId,
    [TOKEN]: token,
    [DEADLINE]: String(plan.deadlineAt),
    [WHEN_OVER]: plan.whenOver,
    [ROOT]: JSON.stringify(rootRef(parseRoot(plan.root))),
    // The image's own labels would be seen on the container.
    [SNAPSHOT]: plan.snapshot ?? '',
    [OWN_LAYERS]: String(ownLayers),
    [LAYER]: '',
    [COMPOSED]: '',
  }
}

/** SECURITY: an image's variables are its author's: what is not one is left out, and podd checks the rest. */
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
    message: `there is another container with the name ${name.slice(1, 100)}`,
    hint: '`docker rm -f` removes it, if it is nobody’s',
  })
}
