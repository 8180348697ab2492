/** Reads Java versions as its tools write them. */
import type { Candidate, Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { nearestAbove } from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'

/** `1.8` is 8; the vendor is dropped; undefined if it is not a version. */
export function javaVersion(written: string): string | undefined {
  const number = /^(?:[A-Za-z][A-Za-z_]*[0-9]{0,2}-)?(\d{1,3}(?:\.\d{1,5}){0,3})/.exec(written.trim())?.[1]
  if (number === undefined) return undefined
  return number.startsWith('1.') ? number.split('.')[1] : number
}

/** The highest first: a newer compiler builds for older machines, and none the other way around. */
export function javaCandidates(
  found: readonly { readonly text: string; readonly evidence: Evidence }[],
): readonly Candidate[] {
  const byValue = new Map<string, Candidate>()
  for (const { text, evidence } of found) {
    const value = javaVersion(text)
    if (value !== undefined && !byValue.has(value)) byValue.set(value, { value, rank: 'manifest', evidence })
  }
  return [...byValue.values()].toSorted((a, b) => Number.parseInt(b.value, 10) - Number.parseInt(a.value, 10))
}

/** Files that name a Java for a directory and those below it. */
const FILES: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['.java-version', /^[ \t]*([\w.+-]{1,60})[ \t]*$/],
  ['.sdkmanrc', /^[ \t]*java[ \t]*=[ \t]*([\w.+-]{1,60})/],
  ['system.properties', /^[ \t]*java\.runtime\.version[ \t]*[=:][ \t]*([\w.+-]{1,60})/],
]

/** Versions from files beside the build. A Kotlin project needs a JDK too. */
export function javaFiles(tree: FileTree, directory: string): readonly Candidate[] {
  const own = FILES.flatMap(([name, pattern]): readonly Candidate[] => {
    const file = nearestAbove(tree, directory, [name])
    const found = file ? findLine(linesIn(tree, file), pattern) : undefined
    const value = javaVersion(found?.match[1] ?? '')
    if (!file || !found || value === undefined) return []
    return [{ value, rank: 'version file', evidence: evidenceAt(file, found.line, found.match[0]) }]
  })
  return [...own, ...versionFileCandidates(tree, directory, 'java')]
}
