/** Draws figures as horizontal bars in an SVG that reads well on light and on dark pages. */
import { duration } from './duration.ts'

export interface Panel {
  readonly title: string
  readonly bars: readonly { readonly name: string; readonly ms: number; readonly isOurs: boolean }[]
}

const TITLE = 'AgentPod beside its peers: medians, shorter is better'
const [WIDTH, NAMES, VALUES, BAR, STEP, HEAD, GAP] = [760, 250, 80, 12, 20, 26, 18]
const LONGEST = WIDTH - NAMES - VALUES
/** Everything has a bar that can be seen. */
const SHORTEST = 1.5

/** No background: the colours of the page decide, and text is readable on either. */
const STYLE = `
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#59636e}
.t{font-size:15px;font-weight:600}.h{font-size:13px;font-weight:600}.t,.h,.o{fill:#1f2328}.o{font-weight:600}.n{text-anchor:end}
rect{fill:#afb8c1}rect.o{fill:#0969da}
@media (prefers-color-scheme:dark){text{fill:#9198a1}.t,.h,.o{fill:#f0f6fc}rect{fill:#59636e}rect.o{fill:#4493f8}}
`

/** The same figures always give the same file. */
export function chartOf(panels: readonly Panel[], { day }: { readonly day: string }): string {
  const parts: string[] = []
  let y = 34
  for (const { title, bars } of panels) {
    y += GAP
    parts.push(`<text class="h" x="0" y="${y}">${escaped(title)}</text>`)
    const longest = Math.max(...bars.map(({ ms }) => ms))
    y += HEAD - STEP
    for (const { name, ms, isOurs } of bars) {
      y += STEP
      const width = Math.max(SHORTEST, (ms / longest) * LONGEST).toFixed(1)
      const ours = isOurs ? ' o' : ''
      parts.push(
        `<text class="n${ours}" x="${NAMES - 8}" y="${y}">${escaped(name)}</text>`,
        `<rect${isOurs ? ' class="o"' : ''} x="${NAMES}" y="${y - BAR + 2}" width="${width}" height="${BAR}" rx="2"/>`,
        `<text class="v${ours}" x="${(NAMES + Number(width) + 6).toFixed(1)}" y="${y}">${duration(ms)}</text>`,
      )
    }
    y += GAP
  }
  const height = y
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc">
<title id="title">${TITLE}</title>
<desc id="desc">${escaped(description(panels, day))}</desc>
<style>${STYLE}</style>
<text class="t" x="0" y="18">${TITLE}</text>
<text x="${WIDTH}" y="18" class="n">${escaped(day)}</text>
${parts.join('\n')}
</svg>
`
}

/** Every figure in words, for those who do not see the bars. */
function description(panels: readonly Panel[], day: string): string {
  const sentences = panels.map(
    ({ title, bars }) => `${title}: ${bars.map(({ name, ms }) => `${name} ${duration(ms)}`).join('; ')}.`,
  )
  return `Measured ${day}. ${sentences.join(' ')}`
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
