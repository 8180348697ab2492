/** Finds any of many byte strings in one pass, so that what it costs does not grow with how many there are. */

export interface Needle {
  readonly bytes: Buffer
  /** Which of the texts it is a form of. */
  readonly text: number
}

export interface Match {
  readonly start: number
  readonly end: number
  readonly text: number
}

/** Below this many bytes a match is more likely chance than the text, and nothing is looked for. */
export const SHORTEST = 6
const BLOCK = 3
const FEWEST_BITS = 10
const MOST_BITS = 17
const LONGEST_SKIP = 255

/**
 * As Wu and Manber do it: three bytes say how far on the next place is where a needle could have them, which for most is as far as the shortest
 * needle is long.
 */
export class Finder {
  readonly longest: number
  readonly #shortest: number
  readonly #mask: number
  readonly #skips: Uint8Array
  /** By the last three of as many first bytes as the shortest has. */
  readonly #candidates = new Map<number, Needle[]>()
  readonly #sorted: readonly Buffer[]
  readonly #firsts = new Uint8Array(256)
  readonly #beginnings = new Set<number>()

  constructor(needles: readonly Needle[]) {
    const real = needles.filter(({ bytes }) => bytes.length >= SHORTEST)
    const lengths = real.map(({ bytes }) => bytes.length)
    this.longest = lengths.reduce((a, b) => Math.max(a, b), 0)
    this.#shortest = lengths.reduce((a, b) => Math.min(a, b), this.longest)
    const bits = Math.ceil(Math.log2(8 * real.length * this.#shortest + 1))
    this.#mask = 2 ** Math.min(MOST_BITS, Math.max(FEWEST_BITS, bits)) - 1
    const most = Math.min(LONGEST_SKIP, Math.max(1, this.#shortest - BLOCK + 1))
    this.#skips = new Uint8Array(this.#mask + 1).fill(most)
    for (const needle of real) this.#add(needle)
    this.#sorted = real.map(({ bytes }) => bytes).sort(Buffer.compare)
  }

  #add(needle: Needle): void {
    const { bytes } = needle
    this.#firsts[bytes[0] ?? 0] = 1
    this.#beginnings.add(bytes.readUInt32BE(0))
    for (let at = BLOCK - 1; at < this.#shortest; at++) {
      const block = this.#block(bytes, at)
      this.#skips[block] = Math.min(this.#skips[block] ?? 0, this.#shortest - 1 - at)
    }
    const last = this.#block(bytes, this.#shortest - 1)
    const known = this.#candidates.get(last)
    if (known) known.push(needle)
    else this.#candidates.set(last, [needle])
  }

  #block(bytes: Buffer, at: number): number {
    return (((bytes[at - 2] ?? 0) << 10) ^ ((bytes[at - 1] ?? 0) << 5) ^ (bytes[at] ?? 0)) & this.#mask
  }

  /** One of them, or undefined. */
  first(bytes: Buffer): Match | undefined {
    let found: Match | undefined
    this.each(bytes, (match) => {
      found = match
      return false
    })
    return found
  }

  /** Every one, also those that overlap, until `take` says false. */
  each(bytes: Buffer, take: (match: Match) => unknown): void {
    if (this.longest === 0) return
    const skips = this.#skips
    for (let at = this.#shortest - 1; at < bytes.length; ) {
      const block = this.#block(bytes, at)
      const skip = skips[block] ?? 1
      at += skip
      if (skip > 0) continue
      const start = at - this.#shortest + 1
      for (const { bytes: needle, text } of this.#candidates.get(block) ?? []) {
        if (!isAt(bytes, needle, start)) continue
        if (take({ start, end: start + needle.length, text }) === false) return
      }
      at++
    }
  }

  /** The length of the longest end of the bytes that a needle begins with and is longer than. */
  beginning(bytes: Buffer): number {
    for (let start = Math.max(0, bytes.length - this.longest + 1); start < bytes.length; start++) {
      if (this.#firsts[bytes[start] ?? 0] === 0) continue
      if (bytes.length - start >= 4 && !this.#beginnings.has(bytes.readUInt32BE(start))) continue
      if (this.#isBeginning(bytes, start)) return bytes.length - start
    }
    return 0
  }

  #isBeginning(bytes: Buffer, start: number): boolean {
    const length = bytes.length - start
    // The first needle that is not before the end in order is the one that it could begin.
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      const needle = this.#sorted[middle]
      if (needle && needle.compare(bytes, start, bytes.length, 0, needle.length) < 0) low = middle + 1
      else high = middle
    }
    // One that is equal may stand before others that are longer.
    for (let at = low; at < this.#sorted.length; at++) {
      const needle = this.#sorted[at]
      if (!needle || !startsWith(needle, bytes, start)) return false
      if (needle.length > length) return true
    }
    return false
  }
}

function isAt(bytes: Buffer, needle: Buffer, start: number): boolean {
  if (start + needle.length > bytes.length) return false
  for (let at = needle.length - 1; at >= 0; at--) if (bytes[start + at] !== needle[at]) return false
  return true
}

function startsWith(needle: Buffer, bytes: Buffer, start: number): boolean {
  const length = bytes.length - start
  return needle.length >= length && needle.compare(bytes, start, bytes.length, 0, length) === 0
}
