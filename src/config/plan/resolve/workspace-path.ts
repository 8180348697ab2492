/** Paths of the project's copy inside a sandbox. */
import { joinPath } from '../../file-tree.ts'

export function withWorkspace(text: string, workspace: string): string {
  return text.replaceAll('$WORKSPACE', workspace)
}

/** The path of a project directory in the sandbox. */
export function insidePath(workspace: string, directory: string): string {
  return directory === '' ? workspace : joinPath(workspace, directory)
}
