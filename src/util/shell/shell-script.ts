/** Joins commands into a script for /bin/sh that ends at the first failure. */

/**
 * Ends the script if the command before it failed, with that command's exit code. `set -e` alone does not: in
 * `a && b` it only notices a failing `b`.
 */
const OR_EXIT = '(exit $?) || exit'

/** A command, which may be a list such as `a && b` or several lines, that ends the script if it fails. */
export function orExit(command: string): string {
  return `${command}\n${OR_EXIT}`
}

/** Runs commands in one shell, in this order, until one fails. */
export function commandSequence(commands: readonly string[]): string {
  return ['set -e', ...commands.map(orExit)].join('\n')
}

/** The lines of the original commands, without those added here. */
export function ownLines(script: string): string[] {
  return script
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('set ') && line !== OR_EXIT)
}
