/** Reads a configuration with both commands. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { AgentPod } from '../../../src/client/client.ts'
import { featureLockText } from '../../../src/config/devcontainer/features/feature-lock.ts'
import {
  devcontainerLabels,
  replaceContainerVariables,
  replaceDevcontainerId,
} from '../../../src/config/devcontainer/variables.ts'
import { AgentPodError, isAgentPodError } from '../../../src/core/error.ts'
import { homeAt } from '../../../src/core/home.ts'
import { nobody } from '../../../src/workbench/ask.ts'
import { printDevcontainer } from '../../../src/workbench/devcontainer/print-devcontainer.ts'
import type { Workbench } from '../../../src/workbench/workbench.ts'
import { putFeature } from '../../support/made-feature.ts'
import { ToyRegistry } from '../../support/toy-registry.ts'
import { type Configuration, PUBLISHED } from './configurations.ts'
import { officialConfiguration, officialLock } from './official-command.ts'

const USUAL_PATH = '.devcontainer/devcontainer.json'
const PARTS = ['configuration', 'workspace', 'mergedConfiguration', 'order'] as const
export type Part = (typeof PARTS)[number]

export interface Compared {
  readonly ours: Readonly<Record<Part, unknown>>
  readonly official: Readonly<Record<Part, unknown>>
}

export class Comparison implements AsyncDisposable {
  readonly #registry: ToyRegistry
  readonly #scratch = mkdtempSync(join(tmpdir(), 'agentpod-devcontainers-'))
  readonly #program: string
  readonly #features = new Map<string, { readonly digest: string; readonly metadata: string }>()
  #count = 0

  private constructor(registry: ToyRegistry, program: string) {
    this.#registry = registry
    this.#program = program
  }

  static async start(program: string): Promise<Comparison> {
    const made = new Comparison(await ToyRegistry.start(), program)
    made.#publish()
    return made
  }

  async [Symbol.asyncDispose](): Promise<void> {
    rmSync(this.#scratch, { recursive: true })
    await this.#registry[Symbol.asyncDispose]()
  }

  /** The official command speaks plain HTTP to this name alone. */
  get #host(): string {
    return `localhost:${this.#registry.host.split(':')[1]}`
  }

  #publish(): void {
    for (const parts of PUBLISHED) {
      const metadata = JSON.parse(this.#filled(JSON.stringify(parts.metadata ?? {}))) as Record<
        string,
        unknown
      >
      const digest = putFeature(this.#registry, 'team/features', { ...parts, metadata })
      const text = JSON.stringify({ id: parts.id, version: '1.2.3', name: parts.id, ...metadata })
      for (const tag of ['1', '1.2', '1.2.3', 'latest'])
        this.#features.set(`${this.#host}/team/features/${parts.id}:${tag}`, { digest, metadata: text })
    }
  }

  #filled(text: string): string {
    return text.replaceAll('REGISTRY', this.#host)
  }

  /** The files of a configuration in a directory of their own. */
  #write(one: Configuration): { readonly scratch: string; readonly project: string; readonly path: string } {
    const scratch = join(this.#scratch, String(this.#count++))
    const project = join(scratch, 'a project')
    const path = one.path ?? USUAL_PATH
    const json = typeof one.json === 'string' ? one.json : JSON.stringify(one.json, null, 2)
    for (const [name, text] of Object.entries({ ...one.files, [path]: json })) {
      mkdirSync(dirname(join(project, name)), { recursive: true })
      writeFileSync(join(project, name), this.#filled(text))
    }
    return { scratch, project, path }
  }

  /** What the official command prints, and the reason of our error; undefined if there is none. */
  async refused(one: Configuration): Promise<{
    readonly official: Readonly<Record<string, unknown>>
    readonly refusal: string | undefined
  }> {
    const { scratch, project } = this.#write(one)
    const official = await officialConfiguration({
      program: this.#program,
      scratch,
      project,
      isPlain: true,
    })
    const refusal = await printDevcontainer(this.#bench(project, scratch, one, undefined), {
      isMerged: false,
    }).then(
      () => undefined,
      (error: unknown) => (isAgentPodError(error) ? error.reason : String(error)),
    )
    return { official, refusal }
  }

  /** The configuration of a container that runs: its id and its variables are known. */
  async running(
    one: Configuration,
    env: Readonly<Record<string, string>>,
  ): Promise<{
    readonly ours: unknown
    readonly official: unknown
  }> {
    const { scratch, project, path } = this.#write(one)
    const labels = devcontainerLabels(project, join(project, path))
    const official = await officialConfiguration({
      program: this.#program,
      scratch,
      project,
      isPlain: true,
      container: { labels, env: Object.entries(env).map(([name, value]) => `${name}=${value}`) },
    })
    const { printed } = await printDevcontainer(this.#bench(project, scratch, one, undefined), {
      isMerged: false,
    })
    const named = replaceDevcontainerId(printed['configuration'], labels)
    return { ours: replaceContainerVariables(named, env, path), official: official['configuration'] }
  }

  /** The lockfiles of Features of the registry. */
  async locks(names: readonly string[]): Promise<{ readonly ours: string; readonly official: string }> {
    const features = Object.fromEntries(names.map((name) => [`REGISTRY/team/features/${name}`, {}]))
    const one = { name: 'lock', json: { image: 'made:1', features } }
    const { scratch, project } = this.#write(one)
    const official = await officialLock({ program: this.#program, scratch, project })
    const { plan } = await printDevcontainer(this.#bench(project, scratch, one, undefined), {
      isMerged: true,
    })
    return { ours: featureLockText(plan.features), official }
  }

  #bench(project: string, scratch: string, { env }: Configuration, label: string | undefined): Workbench {
    return {
      cwd: project,
      home: homeAt(join(scratch, 'home')),
      env: { ...process.env, ...env, HOME: scratch },
      person: nobody,
      client: async () => this.#server(label),
    }
  }

  async compare(one: Configuration): Promise<Compared> {
    const { scratch, project, path } = this.#write(one)
    const label =
      one.label === undefined || typeof one.label === 'string' ? one.label : JSON.stringify(one.label)
    const config = one.isChosen ? path : undefined
    const official = await officialConfiguration({
      program: this.#program,
      scratch,
      project,
      config,
      label,
      env: one.env,
    })
    const { printed, plan } = await printDevcontainer(this.#bench(project, scratch, one, label), {
      choice: config,
      isMerged: true,
    })
    const read = JSON.parse(JSON.stringify(printed)) as Record<string, unknown>
    const sets = official['featuresConfiguration'] as OfficialFeatures | undefined
    return {
      ours: partsOf(
        read,
        plan.features.map(({ reference, options }) => [reference.written, options]),
      ),
      official: partsOf(
        official,
        (sets?.featureSets ?? []).map(({ sourceInformation, features }) => [
          sourceInformation.userFeatureId,
          features[0]?.value,
        ]),
      ),
    }
  }

  /** A server with one image, under every name, and with the registry's Features. */
  #server(label: string | undefined): AgentPod {
    return {
      images: {
        get: async () => ({ labels: label === undefined ? {} : { 'devcontainer.metadata': label } }),
        feature: async (ref: string) => {
          const found = this.#features.get(ref)
          if (found) return found
          throw new AgentPodError({ code: 'not_found', reason: 'feature.unknown', message: ref })
        },
      },
    } as unknown as AgentPod
  }
}

interface OfficialFeatures {
  readonly featureSets: readonly {
    readonly sourceInformation: { readonly userFeatureId: string }
    readonly features: readonly { readonly value: unknown }[]
  }[]
}

function partsOf(read: Readonly<Record<string, unknown>>, order: unknown): Record<Part, unknown> {
  return {
    configuration: read['configuration'],
    workspace: read['workspace'],
    mergedConfiguration: read['mergedConfiguration'],
    order,
  }
}
