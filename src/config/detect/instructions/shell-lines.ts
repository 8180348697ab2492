/** Splits shell scripts into single commands. */

const MOST = 500
const LONGEST = 2000

export interface ShellLine {
  /** A line with its continuation lines. */
  readonly text: string
  /** Of the line it begins on, from zero. */
  readonly offset: number
}

export function shellLines(script: string): readonly ShellLine[] {
  const lines: { text: string; offset: number }[] = []
  let open = false
  for (const [offset, raw] of script.split('\n').slice(0, MOST).entries()) {
    const isContinued = raw.trimEnd().endsWith('\\')
    const part = (isContinued ? raw.trimEnd().slice(0, -1) : raw).trim().slice(0, LONGEST)
    const last = lines.at(-1)
    if (open && last) last.text = `${last.text} ${part}`.slice(0, LONGEST)
    else if (part !== '' && !part.startsWith('#')) lines.push({ text: part, offset })
    open = isContinued
  }
  return lines
}

/** The commands of a line, without prefixes such as sudo. */
export function shellCommands(line: string): readonly string[] {
  return line
    .split(/&&|\|\||;|\|/)
    .map((command) =>
      command
        .trim()
        .replace(/^(?:(?:sudo(?: -\w+)?|exec|time|env|\w+=\S*) ){0,10}/, '')
        .trim(),
    )
    .filter((command) => command !== '')
}

/** Packages that a command installs by apt; undefined for a command that does something else. */
export function aptPackages(command: string): readonly string[] | undefined {
  const [program, ...words] = command.split(/\s+/)
  if (program !== 'apt-get' && program !== 'apt' && program !== 'aptitude') return undefined
  const at = words.findIndex((word) => !word.startsWith('-'))
  if (words[at] !== 'install') return []
  const names: string[] = []
  for (let index = at + 1; index < words.length; index++) {
    const word = words[index] ?? ''
    if (word === '-o' || word === '-t' || word === '--target-release') index++
    else if (word.startsWith('>') || word.startsWith('<') || word.startsWith('2>')) break
    else if (!word.startsWith('-')) {
      const name = word.replace(/^(['"])(.*)\1$/, '$2').replace(/[=:].*$/, '')
      if (/^[a-z0-9][a-z0-9+.-]{1,80}$/.test(name)) names.push(name)
    }
  }
  return names
}

/** Every package that a script installs by apt, with the command that does. */
export function aptPackagesIn(script: string): readonly { readonly name: string; readonly said: string }[] {
  return shellLines(script).flatMap(({ text }) =>
    shellCommands(text).flatMap((said) => (aptPackages(said) ?? []).map((name) => ({ name, said }))),
  )
}
