/**
 * What a project's files ask for. Apart from planning, whose code is much larger and is only needed for
 * projects that ask for something.
 */
import { realpathSync } from 'node:fs'
import { type Detected, detect } from '../../config/detect/detect.ts'
import { type FileTree, fileTree } from '../../config/file-tree.ts'
import { readInside } from '../../util/file/read-inside.ts'

const LARGEST_READ = 1024 * 1024

/** As much of a project as planning needs. */
export interface ProjectFiles {
  readonly directory: string
  readonly name: string
  readonly files: readonly string[]
}

export function detectProject(project: Pick<ProjectFiles, 'directory' | 'files'>): Detected {
  return detect(treeOf(project))
}

/** Whether nothing in the files asks for an environment. */
export function hasNothing({ findings, packages, notes, commands, services }: Detected): boolean {
  return (
    findings.length + packages.length + notes.length + services.length === 0 && commands.setup === undefined
  )
}

/** SECURITY: CF-02. Reads only small regular files that are really inside the project. */
export function treeOf({ directory, files }: Pick<ProjectFiles, 'directory' | 'files'>): FileTree {
  const root = realpathSync(directory)
  return fileTree(files, (path) => {
    const data = readInside(root, path, LARGEST_READ)?.data
    return data === undefined || data.subarray(0, 4096).includes(0) ? undefined : data.toString('utf8')
  })
}
