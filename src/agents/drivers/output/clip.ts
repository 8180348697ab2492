/** SECURITY: output of an agent is stored and shown, so every piece of it has a length limit. */

export const LONGEST_TEXT = 64 * 1024
export const LONGEST_OUTPUT = 16 * 1024
export const LONGEST_TITLE = 500
export const LONGEST_PATH = 4096
export const LONGEST_ERROR = 4000

/** The beginning of a text. Surrogate pairs are not split. */
export function clip(text: string, longest: number): string {
  if (text.length <= longest) return text
  return `${text.slice(0, longest - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Keeps a quarter from the beginning and the rest from the end, which usually matters most. */
export function clipOutput(text: string, longest = LONGEST_OUTPUT): string {
  if (text.length <= longest) return text
  const head = Math.floor(longest / 4)
  const tail = longest - head
  const left = text.length - longest
  return `${text.slice(0, head)}\n… ${left} characters left out …\n${text.slice(-tail)}`.toWellFormed()
}
