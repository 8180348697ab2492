import { chooseDevcontainer } from '../../config/devcontainer/locate.ts'
import type { FileTree } from '../../config/file-tree.ts'
import type { DevcontainerOptions } from './plan-devcontainer.ts'

/** Whether a devcontainer decides about the environment. */
export function usesDevcontainer(
  tree: FileTree,
  o: Pick<DevcontainerOptions, 'devcontainer' | 'isWithoutDevcontainer'>,
): boolean {
  return !o.isWithoutDevcontainer && chooseDevcontainer(tree, o.devcontainer) !== undefined
}
