/** Some programs look for their key in a variable of their own, while the sandbox holds it in the one that the user's key has. */
export function keyAs(to: string, from: string, command: readonly string[]): readonly string[] {
  return to === from ? command : ['/bin/sh', '-c', `export ${to}="\${${from}-}"; exec "$0" "$@"`, ...command]
}
