import { type FileTree, fileTree } from '../tree.ts'

/** A project that lies nowhere: paths and texts. */
export function memoryTree(files: Readonly<Record<string, string>>): FileTree {
  return fileTree(Object.keys(files).toSorted(), (path) => files[path])
}
