/**
 * What a project's files ask for. Apart from planning, whose code is much larger and is only needed for
 * projects that ask for something.
 */
import { lstatSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { type Detected, detect } from '../../config/detect/detect.ts'
import { formatsOf } from '../../config/detect/formats/detect.ts'
import { pathInProject } from '../../config/detect/project-files/paths.ts'
import { type FileTree, fileTree } from '../../config/file-tree.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { readListed } from '../../util/file/read-inside.ts'
import { toPrintableAscii } from '../../util/hidden-characters.ts'

const LARGEST_READ = 1024 * 1024

/** As much of a project as planning needs. */
export interface ProjectFiles {
  readonly directory: string
  readonly name: string
  readonly files: readonly string[]
}

/** `onLook` is called before a file is looked at. */
export function detectProject(
  project: Pick<ProjectFiles, 'directory' | 'files'>,
  onLook?: (path: string) => void,
): Detected {
  return detect(treeOf(project, onLook))
}

/** Whether nothing in the files asks for an environment. */
export function hasNothing({ findings, packages, notes, services, formats }: Detected): boolean {
  return [findings, packages, notes, services, formats].every((list) => list.length === 0)
}

/** What the files ask for, with one file of another platform as the only one of its kind. */
export function detectFrom(
  project: Pick<ProjectFiles, 'directory' | 'files'>,
  written: string,
): { readonly file: string; readonly detected: Detected } {
  const file = pathInProject('', written) ?? ''
  const shown = JSON.stringify(toPrintableAscii(written))
  const tree = treeOf(project)
  if (!tree.has(file))
    throw new AgentPodError({
      code: 'not_found',
      reason: 'init.from',
      message: `the project has no file ${shown}`,
      hint: '--from is the path of a file in this directory; git must not ignore it',
    })
  const formats = formatsOf(tree, file, realpathSync(project.directory))
  const problem = formats.find((one) => one.problem !== undefined)?.problem
  if (problem !== undefined)
    throw invalid(
      'init.from',
      `--from cannot read ${shown}: ${problem}`,
      'correct the file; nothing was written',
    )
  if (formats.length > 0) return { file, detected: detect(tree, formats) }
  throw invalid(
    'init.from',
    `--from does not know the format of ${shown}`,
    'known are devcontainer.json, compose files, and at the root of the project .gitpod.yml, .replit, nixpacks.toml, railpack.json, railway.toml, fly.toml, e2b.toml, devbox.json, mise.toml, .tool-versions, vercel.json, app.json, Procfile, .cursor/environment.json, copilot-setup-steps.yml and Nix files',
  )
}

/** SECURITY: CF-02, CF-05. Reads only small regular files that are really among those of the project. */
export function treeOf(
  { directory, files }: Pick<ProjectFiles, 'directory' | 'files'>,
  onLook: (path: string) => void = () => undefined,
): FileTree {
  const root = realpathSync(directory)
  const isThere = (path: string): boolean => {
    onLook(path)
    return lstatSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true
  }
  const tree: FileTree = fileTree(
    files,
    (path) => {
      onLook(path)
      const data = readListed(root, path, { isListed: tree.has, mostBytes: LARGEST_READ })?.data
      return data === undefined || data.subarray(0, 4096).includes(0) ? undefined : data.toString('utf8')
    },
    isThere,
  )
  return tree
}
