/**
 * A project's files as detection sees them: names, and the text of small files. Links are not followed and
 * nothing is run.
 */

export interface FileTree {
  /** Every file, relative to the project, sorted, with `/`. */
  readonly files: readonly string[]
  has(path: string): boolean
  /** Every file of that name in any directory, nearest to the root first. */
  named(name: string): readonly string[]
  /** Every file whose name has this suffix (`.csproj`), nearest to the root first. */
  ending(suffix: string): readonly string[]
  /** Every file below a directory, at any depth. */
  below(directory: string): readonly string[]
  /** Names of the files directly in a directory (`''` for the root). */
  in(directory: string): readonly string[]
  /**
   * The text of a regular file of at most 1 MiB. Undefined if it does not exist, is larger, or is not text.
   */
  read(path: string): string | undefined
  /** The result of a reader on the file's text, cached per reader and file. Undefined if there is no text. */
  readAs<T>(path: string, reader: (text: string) => T): T | undefined
}

export function directoryOf(path: string): string {
  const at = path.lastIndexOf('/')
  return at < 0 ? '' : path.slice(0, at)
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** A path in a directory, both relative to the project. */
export function joinPath(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`
}

const depth = (path: string): number => path.split('/').length

/** `files` must be sorted. `read` is only called for these files. */
export function fileTree(files: readonly string[], read: (path: string) => string | undefined): FileTree {
  const all = new Set(files)
  const byName = new Map<string, string[]>()
  const byDirectory = new Map<string, string[]>()
  for (const file of files) {
    push(byName, nameOf(file), file)
    push(byDirectory, directoryOf(file), nameOf(file))
  }
  const nearest = (paths: readonly string[]): string[] =>
    paths.toSorted((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1))
  const texts = new Map<string, string | undefined>()
  const made = new Map<unknown, Map<string, unknown>>()
  const textOf = (path: string): string | undefined => {
    if (!all.has(path)) return undefined
    if (!texts.has(path)) texts.set(path, read(path))
    return texts.get(path)
  }
  return {
    files,
    has: (path) => all.has(path),
    named: (name) => nearest(byName.get(name) ?? []),
    ending: (suffix) => nearest([...byName].flatMap(([name, paths]) => (name.endsWith(suffix) ? paths : []))),
    below: (directory) =>
      directory === ''
        ? files
        : files.slice(firstFrom(files, `${directory}/`), firstFrom(files, `${directory}0`)),
    in: (directory) => byDirectory.get(directory) ?? [],
    read: textOf,
    readAs<T>(path: string, reader: (text: string) => T): T | undefined {
      const text = textOf(path)
      if (text === undefined) return undefined
      const known = made.get(reader) ?? new Map<string, unknown>()
      made.set(reader, known)
      if (!known.has(path)) known.set(path, reader(text))
      return known.get(path) as T
    },
  }
}

/** The index of the first file that does not sort before the text. `0` is the character after `/`. */
function firstFrom(files: readonly string[], text: string): number {
  let [low, high] = [0, files.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((files[middle] ?? '') < text) low = middle + 1
    else high = middle
  }
  return low
}

function push(map: Map<string, string[]>, key: string, value: string): void {
  const list = map.get(key)
  if (list) list.push(value)
  else map.set(key, [value])
}
