/** Folds names as file systems may: some ignore case, some drop characters, some drop a tail. */

/** Characters that some file systems drop from a name. */
const DROPPED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

/** ASCII that folds to its lower case: without a tail that is dropped. */
const PLAIN = /^[\x21-\x7e]*[\x21-\x2d\x2f-\x7e]$/

/** Names that are the same on some file system fold to the same text. */
export function foldedName(name: string): string {
  // Most names are plain, and there may be tens of thousands.
  if (PLAIN.test(name)) return name.toLowerCase()
  // Upper case first: some letters, such as the long s, share their upper case with others.
  const folded = name.replaceAll(DROPPED, '').normalize('NFC').toUpperCase().toLowerCase()
  return /[. ]$/.test(folded) ? folded.replace(/(?<=[^. ])[. ]{1,255}$/, '') : folded
}

/** The parts of a path, folded. */
export function foldedParts(path: string): string[] {
  return path
    .split('/')
    .map(foldedName)
    .filter((part) => part !== '' && part !== '.')
}
