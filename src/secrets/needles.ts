/** The forms in which a text can travel: as it is, and as common encodings write it. */

/** Below this many bytes a match is more likely chance than the text. */
const SHORTEST = 6

/**
 * Byte strings one of which occurs wherever the text occurs, also inside a longer text that was encoded as a whole. Longest first, so that
 * of two that overlap the one that covers more is found.
 */
export function needlesOf(text: string): Buffer[] {
  const bytes = Buffer.from(text, 'utf8')
  const hex = bytes.toString('hex')
  const percent = encodeURIComponent(text)
  const json = JSON.stringify(text).slice(1, -1)
  const forms = [
    text,
    percent,
    percent.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll('%20', '+'),
    percentAll(bytes),
    percentAll(bytes).toLowerCase(),
    json,
    json.replaceAll('/', '\\/'),
    unicodeEscaped(text),
    unicodeEscaped(text).toUpperCase().replaceAll('\\U', '\\u'),
    htmlEscaped(text),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64Middles(bytes, offset)),
  ]
  const needles = [...new Set(forms)].map((form) => Buffer.from(form, 'utf8'))
  return needles.filter(({ length }) => length >= SHORTEST).sort((a, b) => b.length - a.length)
}

function percentAll(bytes: Buffer): string {
  return [...bytes].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

function unicodeEscaped(text: string): string {
  return [...Array(text.length).keys()]
    .map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`)
    .join('')
}

function htmlEscaped(text: string): string {
  const names: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text.replaceAll(/[&<>"']/g, (character) => names[character] ?? character)
}

/**
 * Base64 writes three bytes as four characters, so what a text looks like depends on how many bytes stand before it. The characters that
 * share bits with a neighbour are left out at both ends.
 */
function base64Middles(bytes: Buffer, offset: number): string[] {
  const whole = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/, '')
  const from = offset === 0 ? 0 : offset + 1
  const to = Math.floor(((offset + bytes.length) * 8) / 6)
  const middle = whole.slice(from, to)
  return [middle, middle.replaceAll('+', '-').replaceAll('/', '_')]
}
