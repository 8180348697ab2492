/**
 * Draws the recording as an animated SVG, docs/demo/agents.svg, which a README can show. Run it with
 * `scripts/with-node scripts/demo/svg.ts` after a new recording. The same recording always gives the same
 * file.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Cast, readCast } from './cast.ts'

/** Part of a line that appears at one moment in one style. */
interface Segment {
  readonly row: number
  readonly column: number
  text: string
  readonly style: string
  readonly from: number
  /** When it is written over; undefined if it stays. */
  until: number | undefined
}

interface Screen {
  readonly segments: readonly Segment[]
  /** The row of the cursor from a moment on. */
  readonly rows: readonly { readonly at: number; readonly row: number }[]
  readonly end: number
}

const ESCAPE = new RegExp(`${String.fromCodePoint(27)}(?:\\[(?<words>[?\\d;]*)(?<verb>[A-Za-z])|[=>])`, 'y')

/** Times are cut to this, so that what appears together shares one animation. */
const TICK_SECONDS = 0.05
/** Waits are shortened: first those in which something works, then those in which the viewer reads. */
const LONGEST_WAIT_SECONDS = 0.35
const LONGEST_READING_SECONDS = 1.6
const LAST_PICTURE_SECONDS = 3
const PROMPT = '$'

/** Plays the recording on a terminal whose lines never leave it. */
export function play({ header, events }: Cast): Screen {
  const segments: Segment[] = []
  const rows: { at: number; row: number }[] = []
  let [row, column, style] = [0, 0, '']
  let [before, now] = [0, 0]
  const erase = (from: number): void => {
    for (const one of segments) {
      if (one.row !== row || one.until !== undefined || one.column + length(one.text) <= from) continue
      one.until = now
      if (one.column < from)
        segments.push({ ...one, text: head(one.text, from - one.column), from: now, until: undefined })
    }
  }
  const write = (letter: string): void => {
    if (column === header.width) [row, column] = [row + 1, 0]
    const last = segments.at(-1)
    const isNext = last?.row === row && last.column + length(last.text) === column
    if (isNext && last.style === style && last.from === now && last.until === undefined) last.text += letter
    else {
      erase(column)
      segments.push({ row, column, text: letter, style, from: now, until: undefined })
    }
    column += 1
  }
  for (const [seconds, kind, data] of events) {
    if (kind !== 'o') continue
    const isPrompt = data.includes(PROMPT) && data.length < 16
    now = tick(now + Math.min(seconds - before, isPrompt ? LONGEST_READING_SECONDS : LONGEST_WAIT_SECONDS))
    before = seconds
    for (let at = 0; at < data.length; ) {
      ESCAPE.lastIndex = at
      const control = ESCAPE.exec(data)
      const letter = String.fromCodePoint(data.codePointAt(at) ?? 0)
      at += control?.[0].length ?? letter.length
      const { words = '', verb = '' } = control?.groups ?? {}
      if (verb === 'm') style = styleAfter(style, words)
      else if (verb === 'K') erase(column)
      else if (control) continue
      else if (letter === '\r') column = 0
      else if (letter === '\n') row += 1
      else write(letter)
    }
    if (rows.at(-1)?.row !== row) rows.push({ at: now, row })
  }
  const seen = segments.filter(({ text, from, until }) => text.trim() !== '' && from !== until)
  return { segments: seen, rows, end: tick(now + LAST_PICTURE_SECONDS) }
}

const tick = (seconds: number): number => Math.round(seconds / TICK_SECONDS) * TICK_SECONDS
const length = (text: string): number => [...text].length
const head = (text: string, count: number): string => [...text].slice(0, count).join('')

/** Names of classes: b for bold, d for dim, c31 and so on for colours. */
function styleAfter(style: string, words: string): string {
  let names = style.split(' ').filter(Boolean)
  for (const word of words.split(';')) {
    const name = { '1': 'b', '2': 'd' }[word] ?? `c${word}`
    if (word === '0' || word === '') names = []
    else names = [...names.filter((one) => one[0] !== name[0]), name]
  }
  return names.join(' ')
}

const [CELL, LINE, FONT_SIZE] = [8, 18, 13.3]
const [EDGE, BAR, ROWS_SHOWN] = [16, 34, 28]
const STYLE = `
.w{fill:#0d1117;stroke:#444c56}.p{fill:#8b949e;font:12px sans-serif;text-anchor:middle}
.t text{fill:#e6edf3;font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.t .d{fill:#9198a1}.t .b{font-weight:700}.t .c31{fill:#ff7b72}.t .c32{fill:#56d364}.t .c33{fill:#e3b341}.t .c35{fill:#d2a8ff}.t .c36{fill:#76e3ea}
.h{visibility:hidden}
@media (prefers-reduced-motion:reduce){.t,.t *{animation:none!important}}
`

/** Without animation, as for viewers who want no motion, the picture is the last one. */
export function svgOf(cast: Cast): string {
  const screen = play(cast)
  const [width, height] = [cast.header.width * CELL + 2 * EDGE, ROWS_SHOWN * LINE + BAR + EDGE]
  const lastRow = screen.rows.at(-1)?.row ?? 0
  const names = new Map<string, string>()
  const texts = screen.segments.map((one) => segment(one, screen.end, names))
  const scrolled = screen.rows
    .map(({ at, row }) => ({ at, up: Math.max(0, row - ROWS_SHOWN + 1) * LINE }))
    .filter(({ up }, index, all) => up !== all[index - 1]?.up)
  const lastUp = Math.max(0, lastRow - ROWS_SHOWN + 1) * LINE
  const scrolling = scrolled.map(({ at, up }) => `${percent(at, screen.end)}{transform:translateY(-${up}px)}`)
  const title = escaped(cast.header.title ?? '')
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${title}">
<title>${title}</title>
<style>${STYLE}.t text,.t g{animation:${seconds(screen.end)} step-end infinite}
.s{transform:translateY(-${lastUp}px);animation-name:s!important}
@keyframes s{${scrolling.join('')}}
${[...names].map(([frames, name]) => `.${name}{animation-name:${name}!important}@keyframes ${name}{${frames}}`).join('\n')}
</style>
<rect class="w" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="8"/>
<g><circle cx="20" cy="17" r="5.5" fill="#ff5f57"/><circle cx="38" cy="17" r="5.5" fill="#febc2e"/><circle cx="56" cy="17" r="5.5" fill="#28c840"/></g>
<text class="p" x="${width / 2}" y="21">${title}</text>
<svg class="t" x="${EDGE}" y="${BAR}" width="${width - 2 * EDGE}" height="${ROWS_SHOWN * LINE}">
<g class="s">
${texts.join('\n')}
</g>
</svg>
</svg>
`
}

function segment(one: Segment, end: number, names: Map<string, string>): string {
  const frames = [
    one.from > 0 ? '0%{visibility:hidden}' : '',
    `${percent(one.from, end)}{visibility:visible}`,
    one.until === undefined ? '' : `${percent(one.until, end)}{visibility:hidden}`,
  ].join('')
  const name = names.get(frames) ?? `a${names.size}`
  names.set(frames, name)
  const classes = [name, one.style, one.until === undefined ? '' : 'h'].filter(Boolean).join(' ')
  const place = `x="${one.column * CELL}" y="${(one.row + 1) * LINE - 5}"`
  const wide = length(one.text) > 1 ? ` textLength="${length(one.text) * CELL}"` : ''
  return `<text class="${classes}" ${place}${wide}>${escaped(one.text)}</text>`
}

const percent = (at: number, end: number): string => `${Number(((at / end) * 100).toFixed(3))}%`
const seconds = (value: number): string => `${Number(value.toFixed(2))}s`
const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

if (import.meta.main) {
  const directory = join(import.meta.dirname, '..', '..', 'docs', 'demo')
  const cast = readCast(readFileSync(join(directory, 'agents.cast'), 'utf8'))
  writeFileSync(join(directory, 'agents.svg'), svgOf(cast))
}
