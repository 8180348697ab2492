/** All version candidates for Python. */
import { listAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence, Rank } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import { iniAt } from '../project-files/ini-file.ts'
import { evidenceIn, lineAt, readTextFile, shortQuote, versionText } from '../project-files/parsed-file.ts'
import { directoryAndParents, versionFileCandidates } from '../project-files/version-files.ts'
import type { PythonProject } from './project.ts'

const CLASSIFIER = /^Programming Language :: Python :: (\d{1,2}\.\d{1,3})$/

export function pythonVersions(tree: FileTree, project: PythonProject): readonly Candidate[] {
  const { directory, members } = project
  return [
    ...directoryAndParents(directory).flatMap((above) =>
      versionFile(tree, joinPath(above, '.python-version')),
    ),
    ...runtimeFile(tree, joinPath(directory, 'runtime.txt')),
    ...pipfileVersions(project),
    ...versionFileCandidates(tree, directory, 'python'),
    ...ranges(project),
    ...members.flatMap(ranges).slice(0, 20),
    ...condaVersions(tree, directory),
  ]
}

function candidate(value: string, rank: Rank, evidence: Evidence): Candidate {
  return { value, rank, evidence }
}

/** One version per line. It may also contain names of virtual environments. */
function versionFile(tree: FileTree, file: string): Candidate[] {
  const lines = (readTextFile(tree, file) ?? '').slice(0, 2000).split('\n')
  return lines.flatMap((written, index) => {
    const text = written
      .replace(/#.*$/, '')
      .trim()
      .replace(/^(?:cpython|python)[-@]?/, '')
    const value = versionText(text)
    if (value === undefined || !/^\d/.test(value)) return []
    return [candidate(value, 'version file', { file, line: index + 1, said: shortQuote(written) })]
  })
}

function runtimeFile(tree: FileTree, file: string): Candidate[] {
  const text = (readTextFile(tree, file) ?? '').slice(0, 200)
  const [said = '', value] = /^python-(\d[\w.]{0,20})/m.exec(text) ?? []
  return value === undefined ? [] : [candidate(value, 'version file', evidenceIn(file, text, [said], said))]
}

function pipfileVersions({ pipfile }: PythonProject): Candidate[] {
  if (!pipfile) return []
  return ['python_full_version', 'python_version'].flatMap((key) => {
    const value = versionText(valueAt(pipfile.data, 'requires', key))
    if (value === undefined) return []
    const evidence = evidenceIn(pipfile.file, pipfile.text, ['[requires]', key], `${key} = "${value}"`)
    return [candidate(value, 'manifest', evidence)]
  })
}

function ranges({ pyproject, setupCfg, setupPy }: PythonProject): Candidate[] {
  const found: Candidate[] = []
  if (pyproject) {
    const { data, text, file } = pyproject
    const own = versionText(valueAt(data, 'project', 'requires-python'))
    if (own !== undefined)
      found.push(
        candidate(own, 'range', evidenceIn(file, text, ['requires-python'], `requires-python = "${own}"`)),
      )
    const poetry = versionText(valueAt(data, 'tool', 'poetry', 'dependencies', 'python'))
    if (poetry !== undefined)
      found.push(
        candidate(
          poetry,
          'range',
          evidenceIn(file, text, ['[tool.poetry.dependencies]', 'python'], `python = "${poetry}"`),
        ),
      )
    for (const one of [
      ...listAt(data, 'project', 'classifiers'),
      ...listAt(data, 'tool', 'poetry', 'classifiers'),
    ])
      found.push(...classifier(one, (said) => evidenceIn(file, text, [said], said)))
  }
  const required = iniAt(setupCfg?.ini, 'options', 'python_requires')
  const range = versionText(required?.text)
  if (setupCfg && required && range !== undefined)
    found.push(
      candidate(range, 'range', {
        file: setupCfg.file,
        line: required.line,
        said: shortQuote(`python_requires = ${range}`),
      }),
    )
  const listed =
    iniAt(setupCfg?.ini, 'metadata', 'classifiers') ?? iniAt(setupCfg?.ini, 'metadata', 'classifier')
  for (const [index, line] of (listed?.text ?? '').split('\n').entries())
    found.push(
      ...classifier(line, (said) => ({
        file: setupCfg?.file ?? '',
        line: (listed?.line ?? 1) + index,
        said: shortQuote(said),
      })),
    )
  return setupPy ? [...found, ...setupRanges(setupPy)] : found
}

function classifier(value: unknown, evidence: (said: string) => Evidence): Candidate[] {
  const version = typeof value === 'string' ? CLASSIFIER.exec(value.trim())?.[1] : undefined
  return version === undefined ? [] : [candidate(version, 'range', evidence(String(value).trim()))]
}

function setupRanges({ file, text }: { readonly file: string; readonly text: string }): Candidate[] {
  const required = /\bpython_requires\s{0,5}=\s{0,5}(['"])([^'"\n]{1,100})\1/.exec(text)
  const range = versionText(required?.[2])
  const listed = [...text.matchAll(/['"](Programming Language :: Python :: \d{1,2}\.\d{1,3})['"]/g)].slice(
    0,
    50,
  )
  return [
    ...(required && range !== undefined
      ? [
          candidate(range, 'range', {
            file,
            line: lineAt(text, required.index),
            said: shortQuote(required[0]),
          }),
        ]
      : []),
    ...listed.flatMap(({ 1: said = '', index }) =>
      classifier(said, () => ({ file, line: lineAt(text, index), said: shortQuote(said) })),
    ),
  ]
}

/** Conda's file, of which nothing else is used. */
function condaVersions(tree: FileTree, directory: string): Candidate[] {
  return ['environment.yml', 'environment.yaml'].flatMap((name) => {
    const file = joinPath(directory, name)
    const text = (readTextFile(tree, file) ?? '').slice(0, 50_000)
    const [line = '', value] = /^ {0,8}- ['"]?python ?[=~<>]{1,3} ?(\d[\d.]{0,10}\d|\d)/m.exec(text) ?? []
    return value === undefined ? [] : [candidate(value, 'range', evidenceIn(file, text, [line], line))]
  })
}
