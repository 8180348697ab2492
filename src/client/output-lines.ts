/** Splits the output of a build into lines. */
export class OutputLines {
  readonly #onLine: ((line: string) => void) | undefined
  readonly #decoder = new TextDecoder()
  #rest = ''

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine
  }

  push(data: Buffer): void {
    if (!this.#onLine) return
    const lines = (this.#rest + this.#decoder.decode(data, { stream: true })).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#onLine(line)
  }

  flush(): void {
    if (this.#rest !== '') this.#onLine?.(this.#rest)
    this.#rest = ''
  }
}
