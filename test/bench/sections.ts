/** The sections of docs/benchmarks.md: one for each heading, in groups by what stands before the colon. */

interface Section {
  readonly group: string
  readonly text: string
}

/**
 * The figures with the sections of a later run, which measured some parts only. All sections of a group are
 * replaced together, where the group was; a new group comes last. The first one says when it was measured.
 */
export function replaceSections(figures: string, later: string, day: string): string {
  const added = sectionsOf(later).filter(({ group }) => group !== '')
  const groups = new Set(added.map(({ group }) => group))
  const textOf = (wanted: string): string =>
    added
      .filter(({ group }) => group === wanted)
      .map(({ text }, n) => (n === 0 ? dated(text, day) : text))
      .join('\n\n')
  const kept: string[] = []
  for (const { group, text } of sectionsOf(figures)) {
    if (!groups.has(group)) kept.push(text)
    else if (!kept.includes(textOf(group))) kept.push(textOf(group))
  }
  for (const group of groups) if (!kept.includes(textOf(group))) kept.push(textOf(group))
  return kept.join('\n\n')
}

function dated(text: string, day: string): string {
  const [heading = '', ...rest] = text.split('\n')
  return [heading, '', `Measured ${day}, in a run of its own.`, ...rest].join('\n')
}

/** What comes before the first heading is a section of no group. */
function sectionsOf(text: string): Section[] {
  return text
    .trim()
    .split(/\n(?=### )/)
    .map((one) => {
      const heading = /^### ([^:\n]*)/.exec(one)?.[1] ?? ''
      return { group: heading, text: `${one.trim()}\n`.trimEnd() }
    })
}
