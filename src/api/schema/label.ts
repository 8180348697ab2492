/** How a label is written in a filter. */
export const LABEL_FILTER = /^[^=]+=/

export function splitLabel(text: string): [string, string] {
  const cut = text.indexOf('=')
  return [text.slice(0, cut), text.slice(cut + 1)]
}
