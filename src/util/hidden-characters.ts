/**
 * Characters that a terminal obeys or does not show: controls, separators of lines, marks that turn the direction of writing, and others
 * without a width. Text from a sandbox, a project or a server passes through here before a person sees it.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to show
const CONTROLS = /[\u0000-\u001f]/g
/** The joiners of scripts and emoji (U+200C, U+200D) are not among them. */
const HIDDEN =
  /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\p{Cs}\u{e0000}-\u{e007f}]/gu

/** Each of them as its number, so that it is seen and not obeyed. */
export function showHidden(text: string): string {
  return showUnlikelyHidden(text.replaceAll(CONTROLS, numbersOf))
}

/** Leaves the controls of ASCII alone: for lines that have colours of our own, and for JSON, in which the numbers mean the same characters. */
export function showUnlikelyHidden(text: string): string {
  return text.replaceAll(HIDDEN, numbersOf)
}

function numbersOf(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}

/** Every character of Unicode's class "other", and every separator of lines, replaced. */
export function replaceHidden(text: string, by = '?'): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, by)
}
