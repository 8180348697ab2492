/** The forms in which a text can appear: plain, and in common encodings. */
import { SHORTEST } from './pattern-search.ts'

/** Characters that JSON encoders escape although they need not. */
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
 * Byte strings to search for: wherever the text occurs, also inside a longer encoded text, one of them
 * occurs. Longest first, so that of two overlapping matches the longer one is found.
 */
export function encodedForms(text: string): Buffer[] {
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
  return toPatterns(forms)
}

/** The forms that an encoder may wrap into lines. */
export function base64EncodedForms(text: string): Buffer[] {
  return toPatterns(base64Forms(Buffer.from(text, 'utf8')))
}

function toPatterns(forms: readonly string[]): Buffer[] {
  const patterns = [...new Set(forms)].map((form) => Buffer.from(form, 'utf8'))
  return patterns.filter(({ length }) => length >= SHORTEST).sort((a, b) => b.length - a.length)
}

function percentAll(bytes: Buffer): string {
  return [...bytes].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** Each form with and without escaped slashes, and with codes in lower and upper case. */
function jsonForms(text: string): string[] {
  const plain = JSON.stringify(text).slice(1, -1)
  const partly = JSON_ESCAPED.flatMap((escaped) => {
    const small = text.replaceAll(escaped, (character) => `\0${unicodeEscaped(character)}`)
    // Characters that are escaped by code must not be escaped by a backslash as well.
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
 * Base64 encodes three bytes as four characters, so the encoding of a text depends on how many bytes precede
 * it. The characters at both ends that share bits with a neighbor are left out.
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
