/** Finds any of many byte strings in one pass, so that the cost does not grow with their number. */

export interface Pattern {
  readonly bytes: Buffer
  /** Index of the text that this is a form of. */
  readonly text: number
}

export interface Match {
  readonly start: number
  readonly end: number
  readonly text: number
}

/** Shorter patterns are ignored, because a match is more likely chance. */
export const SHORTEST = 6
const BLOCK = 3
const FEWEST_BITS = 10
const MOST_BITS = 17
const LONGEST_SKIP = 255

/**
 * The algorithm of Wu and Manber: a table tells for each block of three bytes how far the search can skip,
 * which for most blocks is the length of the shortest pattern.
 */
export class PatternSearch {
  readonly longest: number
  readonly #shortest: number
  readonly #mask: number
  readonly #skips: Uint8Array
  /** Keyed by the block at the end of the first `#shortest` bytes. */
  readonly #candidates = new Map<number, Pattern[]>()
  readonly #sorted: readonly Buffer[]
  readonly #firsts = new Uint8Array(256)
  readonly #beginnings = new Set<number>()

  constructor(patterns: readonly Pattern[]) {
    const real = patterns.filter(({ bytes }) => bytes.length >= SHORTEST)
    const lengths = real.map(({ bytes }) => bytes.length)
    this.longest = lengths.reduce((a, b) => Math.max(a, b), 0)
    this.#shortest = lengths.reduce((a, b) => Math.min(a, b), this.longest)
    const bits = Math.ceil(Math.log2(8 * real.length * this.#shortest + 1))
    this.#mask = 2 ** Math.min(MOST_BITS, Math.max(FEWEST_BITS, bits)) - 1
    const most = Math.min(LONGEST_SKIP, Math.max(1, this.#shortest - BLOCK + 1))
    this.#skips = new Uint8Array(this.#mask + 1).fill(most)
    for (const pattern of real) this.#add(pattern)
    this.#sorted = real.map(({ bytes }) => bytes).sort(Buffer.compare)
  }

  #add(pattern: Pattern): void {
    const { bytes } = pattern
    this.#firsts[bytes[0] ?? 0] = 1
    this.#beginnings.add(bytes.readUInt32BE(0))
    for (let at = BLOCK - 1; at < this.#shortest; at++) {
      const block = this.#block(bytes, at)
      this.#skips[block] = Math.min(this.#skips[block] ?? 0, this.#shortest - 1 - at)
    }
    const last = this.#block(bytes, this.#shortest - 1)
    const known = this.#candidates.get(last)
    if (known) known.push(pattern)
    else this.#candidates.set(last, [pattern])
  }

  #block(bytes: Buffer, at: number): number {
    return (((bytes[at - 2] ?? 0) << 10) ^ ((bytes[at - 1] ?? 0) << 5) ^ (bytes[at] ?? 0)) & this.#mask
  }

  /** The first match, if there is one. */
  first(bytes: Buffer): Match | undefined {
    let found: Match | undefined
    this.each(bytes, (match) => {
      found = match
      return false
    })
    return found
  }

  /** Every match, also overlapping ones, until `take` returns false. */
  each(bytes: Buffer, take: (match: Match) => unknown): void {
    if (this.longest === 0) return
    const skips = this.#skips
    for (let at = this.#shortest - 1; at < bytes.length; ) {
      const block = this.#block(bytes, at)
      const skip = skips[block] ?? 1
      at += skip
      if (skip > 0) continue
      const start = at - this.#shortest + 1
      for (const { bytes: pattern, text } of this.#candidates.get(block) ?? []) {
        if (!isAt(bytes, pattern, start)) continue
        if (take({ start, end: start + pattern.length, text }) === false) return
      }
      at++
    }
  }

  /** The length of the longest suffix of the bytes that is a proper prefix of a pattern. */
  prefixAtEnd(bytes: Buffer): number {
    for (let start = Math.max(0, bytes.length - this.longest + 1); start < bytes.length; start++) {
      if (this.#firsts[bytes[start] ?? 0] === 0) continue
      if (bytes.length - start >= 4 && !this.#beginnings.has(bytes.readUInt32BE(start))) continue
      if (this.#isBeginning(bytes, start)) return bytes.length - start
    }
    return 0
  }

  #isBeginning(bytes: Buffer, start: number): boolean {
    const length = bytes.length - start
    // The first pattern that does not sort before the suffix is the first that can start with it.
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      const pattern = this.#sorted[middle]
      if (pattern && pattern.compare(bytes, start, bytes.length, 0, pattern.length) < 0) low = middle + 1
      else high = middle
    }
    // A pattern that equals the suffix may sort before longer ones.
    for (let at = low; at < this.#sorted.length; at++) {
      const pattern = this.#sorted[at]
      if (!pattern || !startsWith(pattern, bytes, start)) return false
      if (pattern.length > length) return true
    }
    return false
  }
}

function isAt(bytes: Buffer, pattern: Buffer, start: number): boolean {
  if (start + pattern.length > bytes.length) return false
  for (let at = pattern.length - 1; at >= 0; at--) if (bytes[start + at] !== pattern[at]) return false
  return true
}

function startsWith(pattern: Buffer, bytes: Buffer, start: number): boolean {
  const length = bytes.length - start
  return pattern.length >= length && pattern.compare(bytes, start, bytes.length, 0, length) === 0
}
