/**
 * Where a project's devcontainer.json is. The specification names three places; a project may have several
 * files, and then a person chooses one.
 */
import { AgentPodError, invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { directoryOf, type FileTree, nameOf } from '../file-tree.ts'

const FOLDER = '.devcontainer'
const NAME = 'devcontainer.json'
const DOTTED_NAME = '.devcontainer.json'
const MOST_SHOWN = 20

/** Every devcontainer.json of a project, in the order of the specification. */
export function devcontainerFiles(tree: FileTree): readonly string[] {
  const isDeeper = (path: string): boolean =>
    nameOf(path) === NAME && directoryOf(directoryOf(path)) === FOLDER
  return [
    ...[`${FOLDER}/${NAME}`, DOTTED_NAME].filter((path) => tree.has(path)),
    ...tree.below(FOLDER).filter(isDeeper),
  ]
}

/** Whether a file has a name that the specification allows. */
export function isDevcontainerName(path: string): boolean {
  return [NAME, DOTTED_NAME].includes(nameOf(path))
}

/**
 * The file to use; undefined if the project has none. `choice` is the name of a folder in `.devcontainer`, or
 * a path in the project. Fails if there are several files and no choice.
 */
export function chooseDevcontainer(tree: FileTree, choice?: string): string | undefined {
  const files = devcontainerFiles(tree)
  if (choice !== undefined) return chosen(tree, files, choice)
  if (files.length > 1)
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'devcontainer.several',
      message: `this project has ${files.length} devcontainer.json files: ${listed(files)}`,
      hint: `choose one: --devcontainer ${showHidden(wordFor(files[files.length - 1] ?? ''))}`,
      details: { files },
    })
  if (files.length === 0 && tree.has(FOLDER))
    throw invalid(
      'devcontainer.link',
      `${FOLDER} is a file or a symbolic link, and links are not followed`,
      'replace it with the directory itself',
    )
  return files[0]
}

function chosen(tree: FileTree, files: readonly string[], choice: string): string {
  const path = choice.replace(/^(?:\.\/)+/, '').replace(/\/+$/, '')
  const found = [path, `${path}/${NAME}`, `${FOLDER}/${path}/${NAME}`].find(
    (one) => tree.has(one) && isDevcontainerName(one),
  )
  if (found !== undefined) return found
  throw invalid(
    'devcontainer.unknown',
    tree.has(path)
      ? `${showHidden(path)} is not named ${NAME} or ${DOTTED_NAME}`
      : `no devcontainer.json for ${JSON.stringify(showHidden(choice))}`,
    files.length === 0 ? 'this project has no devcontainer.json' : `there are: ${listed(files)}`,
  )
}

/** The shortest word that chooses a file. */
function wordFor(path: string): string {
  const folder = directoryOf(path)
  return directoryOf(folder) === FOLDER ? nameOf(folder) : path
}

function listed(files: readonly string[]): string {
  const shown = files.slice(0, MOST_SHOWN).map(showHidden).join(', ')
  return files.length > MOST_SHOWN ? `${shown} and ${files.length - MOST_SHOWN} more` : shown
}

/** The lockfile of Features, which is beside the file and dotted if that is. */
export function devcontainerLockPath(path: string): string {
  const folder = directoryOf(path)
  const name = nameOf(path).startsWith('.') ? '.devcontainer-lock.json' : 'devcontainer-lock.json'
  return folder === '' ? name : `${folder}/${name}`
}
