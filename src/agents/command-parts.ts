/** The simple commands that a command for a shell is made of, as far as they can be told without running it. */

/** Words that put another command behind themselves. */
const BEFORE =
  /^(?:(?:sudo|command|builtin|exec|nohup|nice|time|timeout|env|xargs|eval|then|do|else|if|while|until|!|\{|\d+[smhd]?|-[\w-]+|(?:\S*\/)?(?:ba|da|z|k)?sh|\w+=\S*)\s+)/

/**
 * For refusing only: a command inside quotes counts as one, and what hides a word (`g"i"t`, `g\it`, `/usr/bin/git`) is taken off. A shell has more
 * ways than these, so a rule that refuses is a fence for a well-meaning agent; the sandbox is the wall.
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
