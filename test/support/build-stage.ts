/** A builder on an engine on a fake provider: real layers of files that are in memory. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import type { BuildEvent, BuildJob } from '../../src/build/build-request.ts'
import { Builder, type BuildResult } from '../../src/build/builder.ts'
import { InputFiles, type InputFilesParts } from '../../src/build/input-files.ts'
import { LOCAL, type Principal } from '../../src/core/principal.ts'
import type { Recipe, Step } from '../../src/core/recipe.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { EngineFixture } from '../../src/engine/testing/engine-fixture.ts'
import { packContents } from '../../src/sync/tar.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'

export const ALICE: Principal = { owner: 'key_alice', isAdmin: false }
export const BOB: Principal = { owner: 'key_bob', isAdmin: false }

export function step(name: string, o: Partial<Step> = {}): Step {
  return {
    name,
    title: `the step ${name}`,
    run: `write /layers/${name} ${name}`,
    user: 'root',
    workdir: '/',
    path: [],
    variables: {},
    network: [],
    timeoutMs: 60_000,
    ...o,
  }
}

export function recipe(...steps: Step[]): Recipe {
  return { base: { name: 'host', tools: {} }, steps }
}

/** Files of a step, and the archive that they are. */
export function archive(files: Readonly<Record<string, string>>): {
  readonly data: Buffer
  readonly files: NonNullable<Step['files']>
} {
  const data = packContents(
    Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text), isExecutable: false })),
  )
  return { data, files: { digest: sha256(data), to: '/shop', entries: { ...files } } }
}

export function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}

export interface Built {
  readonly result: BuildResult
  readonly events: readonly BuildEvent[]
  /** `one started (it was never built)`, `two cached`. */
  readonly steps: readonly string[]
}

/** What lives of earlier lives of it: the databases, the provider, the archives. */
export class BuildStage {
  readonly #fixture = new EngineFixture()
  readonly clock = this.#fixture.clock
  readonly provider = this.#fixture.provider
  readonly directory = mkdtempSync(join(tmpdir(), 'agentpod-build-'))
  readonly #random = new SeededRandom(17)
  engine!: Engine
  builder!: Builder
  files!: InputFiles

  get state(): DatabaseSync {
    return this.#fixture.state
  }

  /** A server begins, after another one or as the first. */
  async open(limits: Pick<InputFilesParts, 'largestBytes' | 'mostBytes'> = {}): Promise<this> {
    const { clock } = this
    const random = this.#random
    this.engine = this.#fixture.make({
      tmpDir: this.directory,
      random,
      roots: {
        ensure: async ({ name, suite, image }) => {
          const digest = sha256(Buffer.from(image ?? suite ?? ''))
          // An image that this provider unpacks beside its layers.
          if (image !== undefined) return { root: { kind: 'host' }, digest: `sha256:${digest}`, user: 'node' }
          return { root: name === 'host' ? { kind: 'host' } : { kind: 'layers', layers: [digest] } }
        },
      },
    })
    this.files = new InputFiles({ directory: join(this.directory, 'files'), clock, random, ...limits })
    this.builder = new Builder({ engine: this.engine, files: this.files, arch: 'x64', clock, log: silentLog })
    await this.engine.open()
    await this.builder.open()
    return this
  }

  async build(wanted: Recipe, o: Partial<BuildJob> = {}): Promise<Built> {
    const events: BuildEvent[] = []
    const result = await this.builder.build(wanted, {
      project: 'shop',
      who: LOCAL,
      signal: new AbortController().signal,
      keepFailed: false,
      ...o,
      onEvent: (event) => {
        events.push(event)
        return o.onEvent?.(event)
      },
    })
    const steps = events.flatMap((event) =>
      event.kind === 'step' && event.state !== 'done'
        ? [`${event.name} ${event.state}${event.why === undefined ? '' : ` (${event.why})`}`]
        : [],
    )
    return { result, events, steps }
  }

  /** Builds, and answers with the digest. */
  async digest(wanted: Recipe, o: Partial<BuildJob> = {}): Promise<string> {
    const { result } = await this.build(wanted, o)
    assert.ok(result.kind === 'built' && result.digest)
    return result.digest
  }

  async upload(data: Buffer, who: Principal = LOCAL): Promise<void> {
    await this.files.put(who.owner, sha256(data), Readable.from([data]))
  }

  /** The files of a sandbox that begins with what was built. */
  async filesOf(digest: string): Promise<Record<string, string>> {
    const { id } = await this.engine.sandboxes.create({ environment: { digest } }, LOCAL)
    const { files } = this.provider.inside(id)
    const found = Object.fromEntries([...files].map(([path, data]) => [path, data.toString()]))
    await this.engine.sandboxes.destroy(id, LOCAL)
    return found
  }

  /** Nothing is left of a build but its layers. */
  isClean(layers: number): void {
    assert.deepEqual(this.provider.existing, [], 'sandboxes')
    assert.equal(this.engine.usage.count, 0)
    assert.equal(this.engine.layers.list().length, layers, 'layers')
    assert.equal(this.provider.kept.length, layers, 'snapshots of the provider')
  }

  close(): void {
    this.engine.close()
    this.#fixture[Symbol.dispose]()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
