/** Counters, histograms and gauges as Prometheus text. Nothing leaves the machine unless it is asked for. */

type Labels = Readonly<Record<string, string>>

export interface Counter {
  add(labels: Labels, by?: number): void
}

export interface Histogram {
  observe(labels: Labels, value: number): void
}

/**
 * SECURITY: LK-16. Label values must come from a known list, never from a request. Beyond this limit they are
 * counted together under `other`.
 */
const MOST_SERIES = 1000
const NAME = /^[a-z][a-z0-9_]*$/

interface Family {
  text(): string
}

export class Metrics {
  readonly #families = new Map<string, Family>()

  counter(name: string, help: string): Counter {
    const series = new Series(() => ({ value: 0 }))
    this.#register(name, {
      text: () =>
        head(name, help, 'counter') + series.lines((labels, { value }) => line(name, labels, value)),
    })
    return {
      add(labels, by = 1) {
        series.of(labels).value += by
      },
    }
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const series = new Series(() => ({ counts: bounds.map(() => 0), sum: 0, count: 0 }))
    this.#register(name, {
      text: () =>
        head(name, help, 'histogram') +
        series.lines((labels, { counts, sum, count }) =>
          [
            ...bounds.map((le, i) => line(`${name}_bucket`, { ...labels, le: String(le) }, counts[i] ?? 0)),
            line(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
            line(`${name}_sum`, labels, sum),
            line(`${name}_count`, labels, count),
          ].join(''),
        ),
    })
    return {
      observe(labels, value) {
        const one = series.of(labels)
        for (const [i, le] of bounds.entries()) if (value <= le) one.counts[i] = (one.counts[i] ?? 0) + 1
        one.sum += value
        one.count++
      },
    }
  }

  /** `read` is called when the metrics are read. */
  gauge(name: string, help: string, read: () => Iterable<readonly [Labels, number]>): void {
    this.#register(name, {
      text: () =>
        head(name, help, 'gauge') + [...read()].map(([labels, value]) => line(name, labels, value)).join(''),
    })
  }

  text(): string {
    return [...this.#families.values()].map((family) => family.text()).join('')
  }

  #register(name: string, family: Family): void {
    if (!NAME.test(name) || this.#families.has(name)) throw new Error(`a metric cannot be called ${name}`)
    this.#families.set(name, family)
  }
}

class Series<T> {
  readonly #make: () => T
  readonly #series = new Map<string, { labels: Labels; state: T }>()

  constructor(make: () => T) {
    this.#make = make
  }

  of(labels: Labels): T {
    const known = this.#series.get(keyOf(labels))
    if (known) return known.state
    const kept =
      this.#series.size < MOST_SERIES
        ? labels
        : Object.fromEntries(Object.keys(labels).map((name) => [name, 'other']))
    const key = keyOf(kept)
    const made = this.#series.get(key) ?? { labels: kept, state: this.#make() }
    this.#series.set(key, made)
    return made.state
  }

  lines(format: (labels: Labels, state: T) => string): string {
    return [...this.#series.values()].map(({ labels, state }) => format(labels, state)).join('')
  }
}

function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels))
}

function head(name: string, help: string, type: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
}

function line(name: string, labels: Labels, value: number): string {
  const inside = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`)
  return `${name}${inside.length > 0 ? `{${inside.join(',')}}` : ''} ${value}\n`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
