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
  /** Every file whose name matches, sorted by path. */
  matching(name: RegExp): readonly string[]
  /** Every file below a directory, at any depth. */
  below(directory: string): readonly string[]
  /** Names of the files directly in a directory (`''` for the root). */
  in(directory: string): readonly string[]
  /**
   * The text of a regular file of at most 1 MiB. Undefined if it does not exist, is larger, or is not text.
   */
  read(path: string): string | undefined
  /** Whether the directory has such a file, and it is not among these: git ignores it. */
  isLeftOut(path: string): boolean
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

/** `files` must be sorted. `read` is only called for these files, `isThere` only for others. */
export function fileTree(
  files: readonly string[],
  read: (path: string) => string | undefined,
  isThere: (path: string) => boolean = () => false,
): FileTree {
  // There may be tens of thousands of files, and most are never asked for: what is sorted is searched.
  const has = (path: string): boolean => files[firstFrom(files, path)] === path
  const byEnding = lazily(() => grouped(files))
  const ofEnding = (ending: string): readonly string[] => byEnding().get(ending) ?? []
  const byName = new Map<string, readonly string[]>()
  const names = lazily(() => files.map(nameOf))
  const byDirectory = new Map<string, readonly string[]>()
  const texts = new Map<string, string | undefined>()
  const made = new Map<unknown, Map<string, unknown>>()
  const textOf = (path: string): string | undefined => {
    if (texts.has(path)) return texts.get(path)
    const text = has(path) ? read(path) : undefined
    texts.set(path, text)
    return text
  }
  return {
    files,
    has,
    named(name) {
      const known = byName.get(name) ?? nearestFirst(ofEnding(lastEndingOf(name)).filter(isNamed(name)))
      byName.set(name, known)
      return known
    },
    ending(suffix) {
      const last = lastEndingOf(suffix)
      const found = last === '' ? files : ofEnding(last)
      return nearestFirst(last === suffix ? found : found.filter((path) => nameOf(path).endsWith(suffix)))
    },
    matching(name) {
      const all = names()
      return files.filter((_, n) => name.test(all[n] ?? ''))
    },
    below: (directory) =>
      directory === ''
        ? files
        : files.slice(firstFrom(files, `${directory}/`), firstFrom(files, `${directory}0`)),
    in(directory) {
      const known = byDirectory.get(directory) ?? namesIn(files, directory)
      byDirectory.set(directory, known)
      return known
    },
    read: textOf,
    isLeftOut: (path) => !has(path) && isThere(path),
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

function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Files by what their names end with. */
function grouped(files: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>()
  for (const file of files) {
    const ending = lastEndingOf(file)
    const known = groups.get(ending)
    if (known) known.push(file)
    else groups.set(ending, [file])
  }
  return groups
}

function isNamed(name: string): (path: string) => boolean {
  const end = `/${name}`
  return (path) => path === name || path.endsWith(end)
}

/** From the last dot of the name; empty without one. */
function lastEndingOf(path: string): string {
  const at = path.lastIndexOf('.')
  return at <= path.lastIndexOf('/') ? '' : path.slice(at)
}

function nearestFirst(paths: readonly string[]): readonly string[] {
  if (paths.length < 2) return paths
  const depths = new Map(paths.map((path) => [path, depth(path)]))
  const of = (path: string): number => depths.get(path) ?? 0
  return paths.toSorted((a, b) => of(a) - of(b) || (a < b ? -1 : 1))
}

function depth(path: string): number {
  let count = 1
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) count++
  return count
}

/** The files directly in a directory. Those of a directory in it are skipped at once. */
function namesIn(files: readonly string[], directory: string): readonly string[] {
  const prefix = directory === '' ? '' : `${directory}/`
  const names: string[] = []
  for (let at = firstFrom(files, prefix); files[at]?.startsWith(prefix); ) {
    const path = files[at] ?? ''
    const slash = path.indexOf('/', prefix.length)
    if (slash < 0) names.push(path.slice(prefix.length))
    at = slash < 0 ? at + 1 : firstFrom(files, `${path.slice(0, slash)}0`)
  }
  return names
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
