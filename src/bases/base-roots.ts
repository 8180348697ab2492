/** Prepares bases on a provider. A Debian base is built once, and its layer is found by digest later. */
import { createReadStream, mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { invalid } from '../core/error.ts'
import type { Provider } from '../core/provider.ts'
import type { BaseWish, Kit } from '../core/recipe.ts'
import type { ReadyBase } from './base-kind.ts'
import { baseKind } from './bases.ts'
import { buildDebian, DEBIAN_RECIPE, hostSuite } from './debian-bootstrap.ts'

export interface BaseRootsParts {
  readonly tmpDir: string
  readonly logFile: string
  readonly isRoot: boolean
  readonly arch: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Digests of finished builds, by recipe. */
  readonly built: { get(key: string): string | undefined; set(key: string, digest: string): void }
}

const ASK = { timeoutMs: 20_000 }
const IMPORT = { timeoutMs: 10 * 60_000 }
const BUILD_MS = 30 * 60_000

interface Building {
  readonly key: string
  readonly suite: string
  readonly kit: Kit
}

type Progress = (line: string) => void

export class BaseRoots {
  readonly #parts: BaseRootsParts
  readonly #building = new Map<string, { promise: Promise<string>; listeners: Set<Progress> }>()

  constructor(parts: BaseRootsParts) {
    this.#parts = parts
  }

  /** The Debian release to use when none is named. */
  get suite(): string {
    return hostSuite()
  }

  /** Returns the base with its own settings. */
  async ensure(wish: BaseWish, provider: Provider, onProgress: Progress): Promise<ReadyBase> {
    const kind = baseKind(wish.name)
    if (wish.image !== undefined && !kind.takesImage)
      throw invalid(
        'environment.image',
        `the base ${wish.name} does not take an image`,
        'leave the image out, or set the base to image',
      )
    return kind.ready(wish, {
      provider,
      // Read only by bases that have releases.
      get suite() {
        return hostSuite()
      },
      onProgress,
      debian: (suite, kit) => this.#debian(suite, kit, provider, onProgress),
    })
  }

  async #debian(suite: string, kit: Kit, provider: Provider, onProgress: Progress): Promise<string> {
    const variant = kit === 'plain' ? 'debian' : `debian-${kit}`
    const key = `base:${provider.name}:${variant}:${suite}:${DEBIAN_RECIPE}:${this.#parts.arch}`
    const digest = this.#parts.built.get(key)
    if (digest && (await provider.layers?.has(digest, ASK))) return digest
    return this.#build({ key, suite, kit }, provider, onProgress)
  }

  /** Callers that arrive during a build wait for it and get its progress from then on. */
  #build(what: Building, provider: Provider, onProgress: Progress): Promise<string> {
    const under = this.#building.get(what.key)
    if (under) {
      under.listeners.add(onProgress)
      return under.promise
    }
    const listeners = new Set<Progress>([onProgress])
    const tell: Progress = (line) => {
      for (const listener of listeners) listener(line)
    }
    const promise = this.#buildNow(what, provider, tell).finally(() => this.#building.delete(what.key))
    this.#building.set(what.key, { promise, listeners })
    return promise
  }

  async #buildNow({ key, suite, kit }: Building, provider: Provider, onProgress: Progress): Promise<string> {
    mkdirSync(this.#parts.tmpDir, { recursive: true, mode: 0o700 })
    const file = join(this.#parts.tmpDir, `debian-${provider.name}-${suite}-${kit}.tar`)
    try {
      const signal = AbortSignal.timeout(BUILD_MS)
      const digest = await buildDebian({ ...this.#parts, file, suite, kit, onProgress, signal })
      onProgress('unpacking the layer')
      await provider.layers?.import(digest, createReadStream(file), IMPORT)
      this.#parts.built.set(key, digest)
      return digest
    } finally {
      await rm(file, { force: true })
    }
  }
}
