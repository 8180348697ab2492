/** Stores the output of each step of a build in a file. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Home } from '../../core/home.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { ownLines } from '../../util/shell/shell-script.ts'
import type { Terminal } from './terminal.ts'

export class StepLogs {
  readonly #directory: string
  readonly #begun = new Set<string>()

  constructor(home: Home, project: string) {
    this.#directory = join(home.logs, 'builds', project.replaceAll(/[^\w.-]/g, '_'))
  }

  add(step: string, data: Buffer): void {
    const isNew = !this.#begun.has(step)
    if (isNew) mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    this.#begun.add(step)
    writeFileSync(this.#file(step), data, { mode: 0o600, flag: isNew ? 'w' : 'a' })
  }

  say({ say, dim }: Terminal, step: string, failed: string): void {
    say(dim(`      command: ${showHidden(ownLines(failed).slice(-3).join(' ⏎ ')).slice(0, 300)}`))
    const said = this.#begun.has(step) ? `full output: ${this.#file(step)}` : 'it printed nothing'
    say(dim(`      ${said}`))
  }

  #file(step: string): string {
    return join(this.#directory, `${step.replaceAll(/[^\w.-]/g, '_')}.log`)
  }
}
