// The Go packages that each program may contain. podd runs inside a sandbox and must not contain code that
// manages the host; podhost is privileged and must not contain code that serves requests of the sandbox.

import { posix } from 'node:path'
import { lineAt, type SourceFile, type Violation } from './source.ts'

const MODULE = 'agentpod/native/'
const FOREIGN: Readonly<Record<string, readonly string[]>> = {
  'cmd/podd': ['cgroup', 'clone', 'enter', 'host', 'hostproto', 'layer', 'mount', 'pool', 'rootfs'],
  'cmd/podhost': ['account', 'connect', 'containerinit', 'early', 'files', 'guard', 'guest', 'process'],
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
        const [topic = ''] = directory.replace('internal/', '').split('/')
        return foreign.includes(topic)
          ? [{ path: file.path, line, rule: `${program} may not contain ${directory}` }]
          : visit(directory)
      })
    return visit(program)
  })
}
