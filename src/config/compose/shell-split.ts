/** Splits a command as compose does: quotes and backslashes, no expansion. Undefined if a quote is open. */
export function splitWords(text: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? ''
    if (quote === "'") {
      if (character === "'") quote = ''
      else word += character
    } else if (character === '\\' && (quote === '' || /["\\$`]/.test(text[at + 1] ?? ''))) {
      word = (word ?? '') + (text[++at] ?? '')
    } else if (quote === '"') {
      if (character === '"') quote = ''
      else word += character
    } else if (character === '"' || character === "'") {
      quote = character
      word ??= ''
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? '') + character
  }
  if (word !== undefined) words.push(word)
  return quote === '' ? words : undefined
}
