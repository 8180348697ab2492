/** What a run of the benchmarks says, line by line, and where it is kept. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../support/world.ts'
import { chartOf } from './chart.ts'
import { type FigureName, type Figures, frontPage, panelsOf } from './figures.ts'
import type { Summary } from './measure.ts'
import { replaceSections } from './sections.ts'

const PAGE = join(ROOT, 'docs', 'benchmarks.md')

export class Report {
  readonly #lines: string[] = []
  readonly #figures = new Map<FigureName, readonly Summary[]>()
  readonly #levels = new Map<string, Map<string, string>>()

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
    this.rows(
      ['what', 'p50', 'p95', 'min', ...(base ? [`to ${floor}`] : [])],
      rows.map(({ name, p50, p95, min }) => [
        name,
        ...[p50, p95, min].map((ms) => ms.toFixed(1)),
        ...(base ? [(p50 / base).toFixed(2)] : []),
      ]),
    )
  }

  /** Of the medians of so many MiB each, with the ratio to the first row. */
  rates(rows: readonly Summary[], mib: number): void {
    const rate = ({ p50 }: Summary): number => mib / (p50 / 1000)
    const bare = rows[0] ? rate(rows[0]) : Number.NaN
    this.rows(
      ['what', 'MiB/s', 'to the bare copy'],
      rows.map((row) => [row.name, rate(row).toFixed(0), (rate(row) / bare).toFixed(2)]),
    )
  }

  rows(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const line = (cells: readonly string[]): void => this.say(`| ${cells.join(' | ')} |`)
    line(head)
    this.say(`|${head.map(() => '---|').join('')}`)
    for (const row of rows) line(row)
  }

  /** Keeps figures for the chart and for the first part of the document. */
  keep(name: FigureName, rows: readonly Summary[]): void {
    this.#figures.set(name, rows)
  }

  /** Keeps a figure of one level of isolation for docs/providers/isolation.md. */
  keepLevel(what: string, level: string, figure: string): void {
    const row = this.#levels.get(what) ?? new Map<string, string>()
    row.set(level, figure)
    this.#levels.set(what, row)
  }

  /** Replaces the figures in the documents, and the chart. */
  write(): void {
    const day = today()
    const figures: Figures = this.#figures
    writeFileSync(join(ROOT, 'docs', 'benchmarks.svg'), chartOf(panelsOf(figures), { day }))
    const text = between(readFileSync(PAGE, 'utf8'), 'front page', frontPage(figures).join('\n'))
    writeFileSync(PAGE, between(text, 'figures', this.#lines.join('\n')))
    this.#writeLevels(day)
  }

  /** Replaces the sections of a run that measured some parts only. */
  writeParts(): void {
    const day = today()
    const text = readFileSync(PAGE, 'utf8')
    const later = replaceSections(inner(text, 'figures'), this.#lines.join('\n'), day)
    writeFileSync(PAGE, between(text, 'figures', later))
    if (this.#levels.size > 0) this.#writeLevels(day)
  }

  #writeLevels(day: string): void {
    const page = join(ROOT, 'docs', 'providers', 'isolation.md')
    writeFileSync(page, between(readFileSync(page, 'utf8'), 'levels', this.#levelTable(day)))
  }

  #levelTable(day: string): string {
    const levels = [...new Set([...this.#levels.values()].flatMap((row) => [...row.keys()]))]
    const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
    return [
      `Measured ${day}; [benchmarks](../benchmarks.md) has the whole run.`,
      '',
      line(['', ...levels]),
      `|${'---|'.repeat(levels.length + 1)}`,
      ...[...this.#levels].map(([what, row]) => line([what, ...levels.map((one) => row.get(one) ?? '–')])),
    ].join('\n')
  }
}

function today(): string {
  return new Date().toISOString().slice(0, 10)
}

/** What is between the markers of a name. */
function inner(text: string, name: string): string {
  const start = `<!-- ${name} -->`
  return text.slice(text.indexOf(start) + start.length, text.indexOf(`<!-- /${name} -->`))
}

function between(text: string, name: string, replacement: string): string {
  const [start, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  if (!text.includes(start) || !text.includes(end)) throw new Error(`${name}: the markers are missing`)
  const [head, tail] = [text.slice(0, text.indexOf(start) + start.length), text.slice(text.indexOf(end))]
  return `${head}\n\n${replacement.trim()}\n\n${tail}`
}
