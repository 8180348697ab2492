/** Gives the key a second variable, for programs that read it from a variable of their own. */
export function keyAs(to: string, from: string, command: readonly string[]): readonly string[] {
  return to === from ? command : ['/bin/sh', '-c', `export ${to}="\${${from}-}"; exec "$0" "$@"`, ...command]
}
