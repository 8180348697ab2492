import { type FileTree, fileTree } from '../file-tree.ts'

/** A project in memory: paths and texts. */
export function memoryTree(files: Readonly<Record<string, string>>): FileTree {
  return fileTree(Object.keys(files).toSorted(), (path) => files[path])
}
