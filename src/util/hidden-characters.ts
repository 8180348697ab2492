/**
 * Makes text from a sandbox, a project or a server safe to show. SECURITY: CF-02. Control characters, line
 * separators, marks that change the direction of writing and other invisible characters could change what a
 * terminal shows or does. All code that removes or shows them uses the functions of this file.
 *
 * `show...` keeps the information and is for people; `replace...` and `to...` lose it and are for names,
 * messages and protocols.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to show
const CONTROLS = /[\u0000-\u001f]/g
/** The joiners of scripts and emoji (U+200C, U+200D) are not included. */
const HIDDEN =
  /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\p{Cs}\u{e0000}-\u{e007f}]/gu
const HIDDEN_IN_LINES =
  /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu

/** One line of text, with each hidden character as its escape `\u001b`. */
export function showHidden(text: string): string {
  return showUnlikelyHidden(text.replaceAll(CONTROLS, escapesOf))
}

/**
 * Like `showHidden`, but keeps ASCII controls: for lines with our own colors, and for JSON, which stays
 * equal.
 */
export function showUnlikelyHidden(text: string): string {
  return text.replaceAll(HIDDEN, escapesOf)
}

function escapesOf(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}

/** Several lines of text: line ends and tabs stay, other hidden characters become `^[` or `<U+202E>`. */
export function showHiddenInLines(text: string): string {
  return text.replaceAll(HIDDEN_IN_LINES, (character) => {
    const code = character.codePointAt(0) ?? 0
    if (character === '\n' || character === '\t') return character
    if (code < 0x20) return `^${String.fromCharCode(code + 0x40)}`
    return code === 0x7f ? '^?' : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
  })
}

export function hasHidden(text: string): boolean {
  return /[\p{C}\p{Zl}\p{Zp}]/u.test(text)
}

/** One line of text: replaces every character of Unicode's class "other" and every line separator. */
export function replaceHidden(text: string, by = '?'): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, by)
}

/** Like `replaceHidden`, but keeps line ends and tabs. */
export function replaceHiddenInLines(text: string, by = '?'): string {
  return text.replaceAll(/[^\n\t\P{C}]|[\p{Zl}\p{Zp}]/gu, by)
}

/** Replaces only Unicode's class "other", for text where the separators U+2028 and U+2029 do no harm. */
export function replaceControls(text: string, by: string): string {
  return text.replaceAll(/\p{C}/gu, by)
}

/** Printable ASCII with spaces; anything else becomes `?`. */
export function toPrintableAscii(text: string): string {
  return text.replaceAll(/[^ -~]/g, '?')
}

/** Printable ASCII without spaces; anything else becomes `?`. */
export function toVisibleAscii(text: string): string {
  return text.replaceAll(/[^!-~]/g, '?')
}
