/** Programs that a build of C or C++ makes. */
import type { Evidence } from '../evidence.ts'

export interface BuiltProgram {
  /** A variable of CMake's may stand for the name of the project. */
  readonly name: string
  /** Of the file that names it, from the project's: `.` for that itself. */
  readonly directory: string
  readonly evidence: Evidence
}

const TEST = /(?:^|[-_/])(?:unit)?(?:tests?|bench(?:marks?)?|examples?|demos?|fuzz\w*)(?:$|[-_/])/i

/** The only one that is no test, or the one that is called like the project. */
export function meantProgram(
  programs: readonly BuiltProgram[],
  project: string | undefined,
): BuiltProgram | undefined {
  const known = programs
    .map((one) => ({
      ...one,
      name: one.name.replace(/^\$\{(?:CMAKE_)?PROJECT_NAME\}$/, () => project ?? ''),
    }))
    .filter(({ name, directory }) => /^[\w.+-]+$/.test(name) && !TEST.test(name) && !TEST.test(directory))
  return known.length === 1 ? known[0] : known.find(({ name }) => name === project)
}

/** Its path below the directory of the build. */
export function pathOf({ name, directory }: BuiltProgram): string {
  return directory === '.' ? name : `${directory}/${name}`
}
