/** The files of a fake sandbox: its own, and those of what it mounts. */

export interface FakeMount {
  readonly path: string
  readonly files: Map<string, Buffer>
  readonly isReadOnly: boolean
}

/** Paths below a mount belong to it, and are kept there relative to it. */
export class FakeFiles extends Map<string, Buffer> {
  readonly #mounts: readonly FakeMount[]
  /** Called for a change that a read-only mount refuses. */
  readonly #refuse: () => never

  constructor(mounts: readonly FakeMount[], refuse: () => never) {
    super()
    this.#mounts = mounts
    this.#refuse = refuse
  }

  /** Without what is mounted. */
  own(): Map<string, Buffer> {
    return new Map(super.entries())
  }

  override get(path: string): Buffer | undefined {
    const found = this.#mountOf(path)
    return found ? found.files.get(path.slice(found.path.length)) : super.get(path)
  }

  override has(path: string): boolean {
    return this.get(path) !== undefined
  }

  override set(path: string, data: Buffer): this {
    const found = this.#mountOf(path)
    if (!found) return super.set(path, data)
    if (found.isReadOnly) this.#refuse()
    found.files.set(path.slice(found.path.length), data)
    return this
  }

  override delete(path: string): boolean {
    const found = this.#mountOf(path)
    if (!found) return super.delete(path)
    if (found.isReadOnly) this.#refuse()
    return found.files.delete(path.slice(found.path.length))
  }

  override *entries(): MapIterator<[string, Buffer]> {
    for (const entry of super.entries()) if (!this.#mountOf(entry[0])) yield entry
    for (const { path, files } of this.#mounts)
      for (const [name, data] of files) yield [`${path}${name}`, data]
  }

  override [Symbol.iterator](): MapIterator<[string, Buffer]> {
    return this.entries()
  }

  #mountOf(path: string): FakeMount | undefined {
    return this.#mounts?.find((one) => path.startsWith(`${one.path}/`))
  }
}
