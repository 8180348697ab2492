/** A recording in asciinema's format, version 2, and its text for readers without a player. */

export interface Cast {
  readonly header: { readonly width: number; readonly height: number; readonly title?: string }
  readonly events: readonly (readonly [seconds: number, kind: string, data: string])[]
}

export function readCast(text: string): Cast {
  const [header, ...events] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
  return { header: header as Cast['header'], events: events as Cast['events'] }
}

/** Leaves out what asciinema records about the machine: the time and the shell. */
export function writeCast({ header, events }: Cast): string {
  const { width, height } = header
  const top = { version: 2, width, height, title: 'AgentPod: agents on copies of a repository' }
  const lines = events.map(([seconds, kind, data]) => [Math.round(seconds * 1000) / 1000, kind, data])
  return `${[top, ...lines].map((one) => JSON.stringify(one)).join('\n')}\n`
}

const CONTROL = new RegExp(`${String.fromCodePoint(27)}\\[(?<count>[\\d;]*)(?<verb>[A-Za-z])`, 'y')

/** The lines at the end of the recording, without overwritten text and colours. */
export function textOf({ events }: Cast): string {
  const written = events.flatMap(([, kind, data]) => (kind === 'o' ? [data] : [])).join('')
  const lines: string[] = []
  let line: string[] = []
  let column = 0
  for (let at = 0; at < written.length; ) {
    CONTROL.lastIndex = at
    const control = CONTROL.exec(written)
    const letter = String.fromCodePoint(written.codePointAt(at) ?? 0)
    at += control ? control[0].length : letter.length
    const { count = '', verb = '' } = control?.groups ?? {}
    if (verb === 'G') column = Number(count || 1) - 1
    else if (verb === 'K' || verb === 'J') line.length = column
    else if (control) continue
    else if (letter === '\r') column = 0
    else if (letter === '\n') {
      lines.push(line.join('').trimEnd())
      line = []
    } else line[column++] = letter
  }
  return `${lines.join('\n').trimEnd()}\n`
}
