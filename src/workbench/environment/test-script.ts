/** The project's test commands as one script for /bin/sh. */
import { shellWord } from '../../util/shell/shell-word.ts'

export interface TestCommand {
  readonly directory: string
  readonly run: string
}

/** Arguments of the script go to every command that is a single line. */
export function testScript(commands: readonly TestCommand[]): string {
  return `set -e\n${commands.map(inDirectory).join('\n')}`
}

function inDirectory({ directory, run }: TestCommand): string {
  const words = run.includes('\n') ? run : `${run} "$@"`
  return directory === '' ? `(\n${words}\n)` : `(cd ${shellWord(directory)}\n${words}\n)`
}
