/** Fetching everything that a build and its tests need, from the poms alone. */

import { shellWord } from '../../util/shell-word.ts'
import { type FileTree, within } from '../tree.ts'
import { type Pom, resolved } from './maven-pom.ts'
import { inside, isWithin, relativeTo } from './place.ts'
import { at } from './reading.ts'
import { elementText } from './xml-file.ts'

/** No project has a directory of this name, so that removing it takes nothing of anybody's. */
const STUB_DIRECTORY = 'agentpodstub'

/** Checks that want files of the project, which are not there. What they consist of is fetched all the same. */
const SKIPPED = ['checkstyle', 'enforcer', 'gpg', 'license', 'pmd', 'rat', 'spotbugs', 'spotless.check']

/**
 * Maven fetches much of what it needs at the moment it needs it: processors of annotations when there is something to compile, and the runner
 * of the tests when there is a test. `dependency:go-offline` knows of neither and fails for modules that depend on each other. So every module is built with
 * one class and one test in it, and what comes of that is removed. Where even that fails, as code is generated from sources that are missing, what can be
 * resolved without building has to be.
 */
export function mavenSetup(tree: FileTree, directory: string, poms: readonly Pom[]): string {
  const built = poms.filter(({ project }) => elementText(at(project, 'packaging')) !== 'pom')
  const mains = built.map((pom) => sourcesOf(tree, directory, pom, 'sourceDirectory', 'src/main/java'))
  const tests = built.map((pom) => sourcesOf(tree, directory, pom, 'testSourceDirectory', 'src/test/java'))
  const targets = poms.map((pom) => relativeTo(directory, within(pom.directory, 'target')))
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

/** Where Maven looks for sources; a project in Kotlin often says so. */
function sourcesOf(tree: FileTree, directory: string, pom: Pom, key: string, usual: string): string {
  const written = elementText(at(pom.project, 'build', key))?.replace(/^\$\{(?:project\.)?basedir\}\//, '')
  const text = written === undefined ? undefined : resolved(tree, pom, written)
  const path = text === undefined ? undefined : inside(pom.directory, text)
  const isBelow = path !== undefined && path !== pom.directory && isWithin(path, pom.directory)
  return relativeTo(directory, isBelow ? path : within(pom.directory, usual))
}
