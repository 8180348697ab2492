/** How to start a Python program that is not a server of a known framework. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { objectAt } from '../../../util/untrusted-json.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { evidenceIn, readTextFile } from '../project-files/parsed-file.ts'
import { relativeTo } from '../project-files/paths.ts'
import type { PythonProject } from './project.ts'

/** Names of programs, the likeliest first. */
const PROGRAMS = [
  ...['main.py', 'app.py', 'server.py', 'bot.py', 'run.py', 'index.py', 'hello.py', '__main__.py'],
  ...['src/main.py', 'src/app.py', 'app/main.py', 'src/__main__.py'],
]
/** Files that accompany programs. */
const BESIDE =
  /^(?:setup|conftest|manage|noxfile|tasks|fabfile|gunicorn|settings|config|version|__init__|test_.*|.*_tests?|tests?)\.py$/
const GUARD = /^if __name__ == ['"]__main__['"]:/m

export function pythonStart(tree: FileTree, project: PythonProject): FoundCommand | undefined {
  return named(tree, project) ?? only(tree, project) ?? script(project) ?? module(tree, project)
}

/** A file that checks for `__main__` goes before one that only has a usual name. */
function named(tree: FileTree, { directory }: PythonProject): FoundCommand | undefined {
  const there = PROGRAMS.filter((name) => tree.has(joinPath(directory, name)))
  for (const name of there) {
    const file = joinPath(directory, name)
    const text = readTextFile(tree, file) ?? ''
    const [said] = GUARD.exec(text) ?? []
    if (said !== undefined) return { run: `python ${name}`, evidence: evidenceIn(file, text, [said], said) }
  }
  const [first] = there
  if (first === undefined) return undefined
  return { run: `python ${first}`, evidence: { file: joinPath(directory, first), said: first } }
}

function only(tree: FileTree, { directory }: PythonProject): FoundCommand | undefined {
  const names = tree.in(directory).filter((name) => name.endsWith('.py') && !BESIDE.test(name))
  const [name] = names
  if (names.length !== 1 || name === undefined) return undefined
  return { run: `python ${shellWord(name)}`, evidence: { file: joinPath(directory, name), said: name } }
}

/** A program that installing the package makes. */
function script({ pyproject }: PythonProject): FoundCommand | undefined {
  const [name, ...others] = [
    ...Object.keys(objectAt(pyproject?.data, 'project', 'scripts')),
    ...Object.keys(objectAt(pyproject?.data, 'tool', 'poetry', 'scripts')),
  ]
  if (!pyproject || name === undefined || others.length > 0) return undefined
  return {
    run: shellWord(name),
    evidence: evidenceIn(pyproject.file, pyproject.text, ['scripts]', name], `${name} in [project.scripts]`),
  }
}

/** A package that can be run as one. */
function module(tree: FileTree, { directory }: PythonProject): FoundCommand | undefined {
  const file = tree.named('__main__.py').find((path) => {
    const parts = relativeTo(directory, directoryOf(path)).split('/')
    return (
      parts.length === (parts[0] === 'src' ? 2 : 1) && parts.every(isPlain) && !isIgnored(parts.join('/'))
    )
  })
  if (file === undefined) return undefined
  return { run: `python -m ${nameOf(directoryOf(file))}`, evidence: { file, said: '__main__.py' } }
}

function isPlain(part: string): boolean {
  return /^\w+$/.test(part)
}
