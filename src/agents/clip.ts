/** SECURITY: what an agent writes is stored and shown, so every piece of it has a bound. */

export const LONGEST_TEXT = 64 * 1024
export const LONGEST_OUTPUT = 16 * 1024
export const LONGEST_TITLE = 500
export const LONGEST_PATH = 4096
export const LONGEST_ERROR = 4000

/** The beginning of a text. A character outside the basic plane is not cut in two. */
export function clip(text: string, longest: number): string {
  if (text.length <= longest) return text
  return `${text.slice(0, longest - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Of a program's output the end says most: a quarter from the beginning, the rest from the end. */
export function clipOutput(text: string, longest = LONGEST_OUTPUT): string {
  if (text.length <= longest) return text
  const head = Math.floor(longest / 4)
  const tail = longest - head
  const left = text.length - longest
  return `${text.slice(0, head)}\n… ${left} characters left out …\n${text.slice(-tail)}`.toWellFormed()
}
