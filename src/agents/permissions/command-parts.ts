/** Splits a shell command into its simple commands, as far as possible without running it. */

/** Words that are followed by another command. */
const BEFORE =
  /^(?:(?:sudo|command|builtin|exec|nohup|nice|time|timeout|env|xargs|eval|then|do|else|if|while|until|!|\{|\d+[smhd]?|-[\w-]+|(?:\S*\/)?(?:ba|da|z|k)?sh|\w+=\S*)\s+)/

/**
 * Only for denials: a command in quotes counts too, and disguises of a word (`g"i"t`, `g\it`, `/usr/bin/git`)
 * are removed. Shells have more ways to hide a command, so a denial stops a well-meaning agent; only the
 * sandbox stops a hostile one.
 */
export function commandParts(command: string): string[] {
  const bare = command.replace(/\\\r?\n/g, ' ')
  const parts = new Set<string>()
  for (const raw of bare.split(/[;|&\n\r()`<>]|\$\(/)) {
    const part = raw.replace(/\s+/g, ' ').trim()
    if (part === '') continue
    parts.add(part)
    const plain = part.replace(/["'\\]/g, '').trim()
    parts.add(plain)
    const own = unwrapped(plain)
    parts.add(own)
    parts.add(own.replace(/^\S*\//, ''))
  }
  return [...parts]
}

function unwrapped(part: string): string {
  let left = part
  for (let depth = 0; depth < 16; depth++) {
    const word = BEFORE.exec(left)?.[0]
    if (word === undefined) break
    left = left.slice(word.length)
  }
  return left
}
