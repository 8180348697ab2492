/** What a run of the benchmarks says, line by line, and where it is kept. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../support/world.ts'
import type { Summary } from './measure.ts'

export class Report {
  readonly #lines: string[] = []

  say(line: string): void {
    this.#lines.push(line)
    process.stdout.write(`${line}\n`)
  }

  heading(text: string): void {
    this.say(`\n### ${text}\n`)
  }

  /** With `floor`, each row's ratio to the row of that name. */
  table(rows: readonly Summary[], floor?: string): void {
    const base = rows.find(({ name }) => name === floor)?.p50
    this.say(`| what | p50 | p95 | min |${base ? ` to ${floor} |` : ''}`)
    this.say(`|---|---|---|---|${base ? '---|' : ''}`)
    for (const { name, p50, p95, min } of rows) {
      const ratio = base ? ` ${(p50 / base).toFixed(2)} |` : ''
      this.say(`| ${name} | ${p50.toFixed(1)} | ${p95.toFixed(1)} | ${min.toFixed(1)} |${ratio}`)
    }
  }

  /** Replaces the figures in the document. */
  write(): void {
    const file = join(ROOT, 'docs', 'benchmarks.md')
    const text = readFileSync(file, 'utf8')
    const [start, end] = ['<!-- figures -->', '<!-- /figures -->']
    const [head, tail] = [text.slice(0, text.indexOf(start) + start.length), text.slice(text.indexOf(end))]
    writeFileSync(file, `${head}\n\n${this.#lines.join('\n')}\n\n${tail}`)
  }
}
