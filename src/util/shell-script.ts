/** Scripts for /bin/sh that are put together from commands, none of which may fail unseen. */

/**
 * Ends the script where the command before it failed, with that command's own code. `set -e` alone does not: of `a && b` it looks at
 * nothing but a failing `b`.
 */
const OR_EXIT = '(exit $?) || exit'

/** A command of a script, whatever it is made of: a list such as `a && b`, or several lines. */
export function checked(command: string): string {
  return `${command}\n${OR_EXIT}`
}

/** Commands in one shell, in this order, until one fails. */
export function inOrder(commands: readonly string[]): string {
  return ['set -e', ...commands.map(checked)].join('\n')
}

/** The lines that somebody wrote, without those that are put in here. */
export function ownLines(script: string): string[] {
  return script
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('set ') && line !== OR_EXIT)
}
