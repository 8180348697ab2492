/** Chooses between sources that name the same thing, by the order of precedence. */
import { type Evidence, goesBefore, RANK_WORDS, RANKS, type Rank, type Rejected } from '../../evidence.ts'
import { rankOfFile } from '../../source-rank.ts'

export interface Ranked {
  readonly evidence: Evidence
  /** If left out, the file decides. */
  readonly rank?: Rank | undefined
}

export function rankOf({ evidence, rank }: Ranked): Rank {
  return rank ?? rankOfFile(evidence.file)
}

/** The strongest first; sources of one rank stay in their order. */
export function byRank<T extends Ranked>(sources: readonly T[]): T[] {
  return sources.toSorted((a, b) => RANKS.indexOf(rankOf(a)) - RANKS.indexOf(rankOf(b)))
}

/** Why the second source lost to the first. */
export function whyBeaten(chosen: Ranked, lost: Ranked, isSame: boolean): string {
  if (isSame) return 'it says the same'
  const [first, second] = [rankOf(chosen), rankOf(lost)]
  return goesBefore(first, second)
    ? `${RANK_WORDS[first]} goes before ${RANK_WORDS[second]}`
    : 'another file of the same kind goes first'
}

/**
 * One entry for each key, from its strongest source, with the others in `beat`. `textOf` is the text that
 * `config explain` shows.
 */
export function strongest<T extends Ranked>(
  sources: readonly T[],
  keyOf: (source: T) => string | number,
  textOf: (source: T) => string,
): (T & { readonly beat: readonly Rejected[] })[] {
  const groups = new Map<string | number, T[]>()
  for (const source of sources) {
    const group = groups.get(keyOf(source))
    if (group) group.push(source)
    else groups.set(keyOf(source), [source])
  }
  return [...groups.values()].flatMap((group) => {
    const [chosen, ...others] = byRank(group)
    if (!chosen) return []
    const beat = others.map((lost) => ({
      value: textOf(lost),
      evidence: lost.evidence,
      why: whyBeaten(chosen, lost, textOf(lost) === textOf(chosen)),
    }))
    return [{ ...chosen, beat: distinct(beat, chosen.evidence) }]
  })
}

const MOST = 10

/** Each place once, and not the chosen one again. */
function distinct(beat: readonly Rejected[], chosen: Evidence): Rejected[] {
  const place = ({ file, line, said }: Evidence): string => `${file}\n${line}\n${said}`
  const seen = new Set([place(chosen)])
  return beat
    .filter(({ evidence }) => {
      const key = place(evidence)
      return seen.has(key) ? false : seen.add(key)
    })
    .slice(0, MOST)
}
