/** From the name of a base to layers that a provider has. One build at a time; what was built is remembered by digest. */
import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Base } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import type { Provider, RootPlan } from '../core/provider.ts'
import { buildDebian, DEBIAN_RECIPE } from './debian.ts'

export interface RootsParts {
  readonly tmpDir: string
  readonly isRoot: boolean
  readonly arch: string
  /** Digests of finished builds, by recipe. */
  readonly built: { get(key: string): string | undefined; set(key: string, digest: string): void }
}

const ASK = { timeoutMs: 20_000 }
const IMPORT = { timeoutMs: 10 * 60_000 }

type Progress = (line: string) => void

export class LayerRoots {
  readonly #parts: RootsParts
  #building: { promise: Promise<string>; listeners: Set<Progress> } | undefined

  constructor(parts: RootsParts) {
    this.#parts = parts
  }

  async ensure(base: Base, provider: Provider, onProgress: Progress): Promise<RootPlan> {
    if (base === 'host') return { kind: 'host' }
    const layers = provider.layers
    if (!layers) {
      throw new AgentPodError({
        code: 'unsupported',
        reason: 'provider.layers',
        message: `${provider.name} takes no layers`,
      })
    }
    const key = `base:${base}:${DEBIAN_RECIPE}:${this.#parts.arch}`
    const digest = this.#parts.built.get(key)
    if (digest && (await layers.has(digest, ASK))) return { kind: 'layers', layers: [digest] }
    return { kind: 'layers', layers: [await this.#build(key, provider, onProgress)] }
  }

  /** Callers that come while a build runs wait for it and hear its progress from there on. */
  #build(key: string, provider: Provider, onProgress: Progress): Promise<string> {
    if (!this.#building) {
      const listeners = new Set<Progress>()
      const tell: Progress = (line) => {
        for (const listener of listeners) listener(line)
      }
      const promise = this.#buildNow(key, provider, tell).finally(() => {
        this.#building = undefined
      })
      this.#building = { promise, listeners }
    }
    this.#building.listeners.add(onProgress)
    return this.#building.promise
  }

  async #buildNow(key: string, provider: Provider, onProgress: Progress): Promise<string> {
    mkdirSync(this.#parts.tmpDir, { recursive: true, mode: 0o700 })
    const name = 'debian.tar'
    const file = join(this.#parts.tmpDir, name)
    try {
      const digest = await buildDebian({ file, isRoot: this.#parts.isRoot, onProgress })
      onProgress('unpacking the layer')
      await provider.layers?.import(digest, name, IMPORT)
      this.#parts.built.set(key, digest)
      return digest
    } finally {
      await rm(file, { force: true })
    }
  }
}
