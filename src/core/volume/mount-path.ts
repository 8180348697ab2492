/** Where something can be mounted inside a sandbox. */
import { invalid } from '../error.ts'

const LONGEST_PATH = 1024

/** Directories that every sandbox has of its own. */
const RESERVED = ['/proc', '/sys', '/dev', '/run', '/tmp', '/etc', '/.agentpod']

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are refused
const CONTROL = /[\u0000-\u001f\u007f]/

/** A path where something can be mounted inside a sandbox. */
export function parseMountPath(
  path: string,
  what = 'a volume',
  hint = 'choose another path, such as /data',
): string {
  const isPlain =
    path.startsWith('/') &&
    path !== '/' &&
    !CONTROL.test(path) &&
    path.length <= LONGEST_PATH &&
    path
      .slice(1)
      .split('/')
      .every((part) => part !== '' && part !== '.' && part !== '..')
  if (!isPlain) {
    throw invalid(
      'volume.path',
      `${JSON.stringify(path)} is not a path for ${what}`,
      'write an absolute path without `.`, `..` and a slash at the end, such as /data',
    )
  }
  const own = RESERVED.find((dir) => isWithin(path, dir))
  if (own === undefined) return path
  throw invalid('volume.path', `${what} cannot be at ${path}: every sandbox has its own ${own}`, hint)
}

/** Refuses paths inside one another: what a program sees would depend on the order. */
export function checkMountPaths(paths: readonly string[]): void {
  for (const [n, path] of paths.entries()) {
    const other = paths.slice(0, n).find((one) => pathsOverlap(path, one))
    if (other === undefined) continue
    const relation = path === other ? 'two volumes are' : `the volumes at ${other} and ${path} are`
    throw invalid(
      'volume.nested',
      path === other ? `${relation} mounted at ${path}` : `${relation} mounted one inside the other`,
      'give each volume a directory of its own',
    )
  }
}

/** Whether one path is the other or below it. */
export function pathsOverlap(a: string, b: string): boolean {
  return isWithin(a, b) || isWithin(b, a)
}

function isWithin(path: string, dir: string): boolean {
  return path === dir || path.startsWith(`${dir}/`)
}
