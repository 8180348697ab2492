/** Fetches everything that a build and its tests need, from the poms only. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import { isWithin, pathInProject, relativeTo } from '../project-files/paths.ts'
import { elementText } from '../project-files/xml-file.ts'
import { type Pom, resolveProperties } from './maven-pom.ts'

/** No project has a directory of this name, so it is safe to remove. */
const STUB_DIRECTORY = 'agentpodstub'

/**
 * Checks that need files of the project, which are not there yet. Their own dependencies are fetched anyway.
 */
const SKIPPED = ['checkstyle', 'enforcer', 'gpg', 'license', 'pmd', 'rat', 'spotbugs', 'spotless.check']

/**
 * Maven fetches many dependencies only when it needs them: annotation processors when it compiles, the test
 * runner when there is a test. `dependency:go-offline` knows of neither and fails for modules that depend on
 * each other. So every module is built with one stub class and one stub test, which are removed afterwards.
 * If that fails, for example because code is generated from missing sources, it resolves what it can without
 * building.
 */
export function mavenSetup(tree: FileTree, directory: string, poms: readonly Pom[]): string {
  const built = poms.filter(({ project }) => elementText(valueAt(project, 'packaging')) !== 'pom')
  const mains = built.map((pom) => sourcesOf(tree, directory, pom, 'sourceDirectory', 'src/main/java'))
  const tests = built.map((pom) => sourcesOf(tree, directory, pom, 'testSourceDirectory', 'src/test/java'))
  const targets = poms.map((pom) => relativeTo(directory, joinPath(pom.directory, 'target')))
  const skips = SKIPPED.map((name) => `-D${name}.skip`).join(' ')
  const offline = 'mvn -B -ntp -fae dependency:go-offline'
  const all = [...new Set([...mains, ...tests])]
  return [
    '(',
    ...(all.length > 0
      ? [`for sources in ${words(all)}; do mkdir -p "$sources/${STUB_DIRECTORY}"; done`]
      : []),
    ...(mains.length > 0
      ? [writing(mains, 'Stub', 'public class Stub { public static void main(String[] words) {} }')]
      : []),
    ...(tests.length > 0 ? [writing(tests, 'StubTest', 'class StubTest {}')] : []),
    `mvn -B -ntp -fae -Dmaven.test.failure.ignore ${skips} package || ${offline}${poms.length > 1 ? ` || ${offline} -N` : ''}`,
    'status=$?',
    ...(all.length > 0
      ? [
          `for sources in ${words(all)}; do rm -rf "$sources/${STUB_DIRECTORY}"; rmdir -p "$sources" 2>/dev/null || :; done`,
        ]
      : []),
    `rm -rf ${words(targets)}`,
    'exit $status',
    ')',
  ].join('\n')
}

function writing(directories: readonly string[], name: string, text: string): string {
  const source = `package ${STUB_DIRECTORY};\\n${text}\\n`
  return `for sources in ${words(directories)}; do printf '${source}' > "$sources/${STUB_DIRECTORY}/${name}.java"; done`
}

function words(list: readonly string[]): string {
  return list.map(shellWord).join(' ')
}

/** Source directories of Maven; Kotlin projects often set them. */
function sourcesOf(tree: FileTree, directory: string, pom: Pom, key: string, usual: string): string {
  const written = elementText(valueAt(pom.project, 'build', key))?.replace(
    /^\$\{(?:project\.)?basedir\}\//,
    '',
  )
  const text = written === undefined ? undefined : resolveProperties(tree, pom, written)
  const path = text === undefined ? undefined : pathInProject(pom.directory, text)
  const isBelow = path !== undefined && path !== pom.directory && isWithin(path, pom.directory)
  return relativeTo(directory, isBelow ? path : joinPath(pom.directory, usual))
}
