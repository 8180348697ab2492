/** The forms in which a text can travel: as it is, and as common encodings write it. */
import { SHORTEST } from './finder.ts'

/** What writers of JSON escape beside what they must. */
const JSON_ESCAPED: readonly RegExp[] = [
  // Python, and PHP.
  /[\u007f-\uffff]/g,
  // Go, Rails.
  /[&<>\u2028\u2029]/g,
  /[&<>]|[\u007f-\uffff]/g,
  // Gson; then PHP with its JSON_HEX options, and .NET.
  /[&<>=']/g,
  /[&<>']/g,
  /[&<>'+`]|[\u007f-\uffff]/g,
  /[&<>'+`"]|[\u007f-\uffff]/g,
]

/**
 * Byte strings one of which occurs wherever the text occurs, also inside a longer text that was encoded as a whole. Longest first, so that
 * of two that overlap the one that covers more is found.
 */
export function needlesOf(text: string): Buffer[] {
  const bytes = Buffer.from(text, 'utf8')
  const hex = bytes.toString('hex')
  const percent = encodeURIComponent(text)
  const forms = [
    text,
    percent,
    percent.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll('%20', '+'),
    percentAll(bytes),
    percentAll(bytes).toLowerCase(),
    ...jsonForms(text),
    htmlEscaped(text),
    hex,
    hex.toUpperCase(),
    ...base64Forms(bytes),
  ]
  return toNeedles(forms)
}

/** Those that an encoder may break into lines. */
export function wrappedNeedlesOf(text: string): Buffer[] {
  return toNeedles(base64Forms(Buffer.from(text, 'utf8')))
}

function toNeedles(forms: readonly string[]): Buffer[] {
  const needles = [...new Set(forms)].map((form) => Buffer.from(form, 'utf8'))
  return needles.filter(({ length }) => length >= SHORTEST).sort((a, b) => b.length - a.length)
}

function percentAll(bytes: Buffer): string {
  return [...bytes].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** Each as it is and with its slashes escaped, with codes in small and in capital letters. */
function jsonForms(text: string): string[] {
  const plain = JSON.stringify(text).slice(1, -1)
  const partly = JSON_ESCAPED.flatMap((escaped) => {
    const small = text.replaceAll(escaped, (character) => `\0${unicodeEscaped(character)}`)
    // What is escaped by code is kept from being escaped by a backslash as well.
    const form = JSON.stringify(small).slice(1, -1).replaceAll('\\u0000\\\\', '\\')
    return [form, form.replaceAll(/\\u[0-9a-f]{4}/g, (code) => `\\u${code.slice(2).toUpperCase()}`)]
  })
  const whole = unicodeEscaped(text)
  return [
    ...[plain, ...partly].flatMap((form) => [form, form.replaceAll('/', '\\/')]),
    whole,
    whole.toUpperCase().replaceAll('\\U', '\\u'),
  ]
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

function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((offset) => base64Middles(bytes, offset))
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
