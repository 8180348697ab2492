/** Programs that a build of C or C++ makes. */
import type { Evidence } from '../../evidence.ts'

export interface BuiltProgram {
  /** May be a CMake variable for the project's name. */
  readonly name: string
  /** The directory of the file that names it, relative to the project; `.` for the project's own. */
  readonly directory: string
  readonly evidence: Evidence
}

const TEST = /(?:^|[-_/])(?:unit)?(?:tests?|bench(?:marks?)?|examples?|demos?|fuzz\w*)(?:$|[-_/])/i

/** The only program that is not a test, or the one with the project's name. */
export function mainProgram(
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

/** Its path below the build directory. */
export function builtProgramPath({ name, directory }: BuiltProgram): string {
  return directory === '.' ? name : `${directory}/${name}`
}
