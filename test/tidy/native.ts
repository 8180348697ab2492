// Which Go packages each program is made of. podd runs inside a sandbox and is no place for what manages the host; the
// host's privileged helper is no place for what serves the sandbox's requests.

import { posix } from 'node:path'
import { lineAt, type SourceFile, type Violation } from './source.ts'

const MODULE = 'agentpod/native/'
const FOREIGN: Readonly<Record<string, readonly string[]>> = {
  'cmd/podd': [
    'bundle',
    'cgroup',
    'enter',
    'host',
    'hostproto',
    'launch',
    'layer',
    'mount',
    'pool',
    'rootfs',
  ],
  'cmd/podhost': ['account', 'connect', 'files', 'guard', 'guest', 'process'],
}

export function checkPrograms(files: readonly SourceFile[]): Violation[] {
  const own = files.filter(({ path }) => path.endsWith('.go') && !path.endsWith('_test.go'))
  return Object.entries(FOREIGN).flatMap(([program, foreign]) => {
    const seen = new Set<string>()
    const visit = (directory: string): Violation[] => {
      if (seen.has(directory)) return []
      seen.add(directory)
      return own
        .filter(({ path }) => posix.dirname(path) === `native/${directory}`)
        .flatMap((file) => visitImports(file))
    }
    const visitImports = (file: SourceFile): Violation[] =>
      [
        ...file.text.matchAll(/^\s*(?:import\s+)?(?:\w+\s+)?"agentpod\/native\/(?<directory>[^"]+)"$/gm),
      ].flatMap((match) => {
        const directory = match.groups?.['directory'] ?? ''
        const line = lineAt(file.text, match.index + match[0].indexOf(MODULE))
        return foreign.includes(directory.replace('internal/', ''))
          ? [{ path: file.path, line, rule: `${program} may not contain ${directory}` }]
          : visit(directory)
      })
    return visit(program)
  })
}
