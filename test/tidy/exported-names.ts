// One exported name has one meaning.

import { isTest, lineAt, type Parsed, type Violation } from './source.ts'

const EXPORT =
  /^export\s+(?:declare\s+)?(?:async\s+)?(?:abstract\s+)?(?:function\*?|class|const|let|type|interface)\s+(?<name>[\w$]+)/gm

type Allowed = { readonly name: string; readonly paths: readonly RegExp[]; readonly reason: string }

const ofClient = (name: string): Allowed => ({
  name,
  paths: [/^src\/(?:core|engine|runs)\//, /^src\/client\//],
  reason: 'the class of the client is the API face of the noun',
})

const ALLOWED: readonly Allowed[] = [
  { name: 'command', paths: [/^src\/cli\/commands\//], reason: 'every file of a command exports it' },
  ...[
    'FileChange',
    'ProcessInfo',
    'Run',
    'Runs',
    'Sandbox',
    'Secret',
    'Secrets',
    'Snapshot',
    'Snapshots',
    'Volumes',
    'WatchOptions',
  ].map(ofClient),
]

export function checkExportedNames(files: readonly Parsed[], allowed = ALLOWED): Violation[] {
  const places = new Map<string, { readonly path: string; readonly line: number }[]>()
  for (const { path, code } of files) {
    if (!path.startsWith('src/') || isTest(path)) continue
    const names = new Map(
      [...code.matchAll(EXPORT)].map(({ index, groups }) => [groups?.['name'] ?? '', index]),
    )
    for (const [name, index] of names)
      places.set(name, [...(places.get(name) ?? []), { path, line: lineAt(code, index) }])
  }
  return [...places].flatMap(([name, all]) => {
    const exceptions = allowed.filter((one) => one.name === name).flatMap(({ paths }) => paths)
    const others = all.filter(({ path }) => !exceptions.some((pattern) => pattern.test(path)))
    const isUnique = all.length === 1 || (others.length === 0 && exceptions.length > 0)
    return isUnique
      ? []
      : all.map((place) => ({
          ...place,
          rule: `${name} is exported by ${all.length} files: ${all.map(({ path }) => path).join(', ')}`,
        }))
  })
}
