/** Text from agents and programs, made fit for one line. */
import { stripVTControlCharacters } from 'node:util'
import { showHidden } from './hidden-characters.ts'

/** Removes colours and other terminal sequences. Line ends stay. */
export function withoutSequences(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll('\r\n', '\n')
    .replaceAll(/^.*\r/gm, '')
    .replaceAll('\t', '  ')
}

/** The text on one line, with control characters shown and not obeyed. */
export function oneLine(text: string): string {
  return showHidden(joinLines(withoutSequences(text), ' '))
}

/** Joins the lines that are not blank. */
export function joinLines(text: string, by: string): string {
  return text
    .split('\n')
    .map((line, index) => (index === 0 ? line.trimEnd() : line.trim()))
    .filter((line) => line !== '')
    .join(by)
}

/** At most so many characters; an ellipsis marks what is left out. */
export function truncate(text: string, most: number): string {
  if (text.length <= most) return text
  const characters = [...text]
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join('')}…`
}
