/** Runs every detector over a project's files. */
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../file-tree.ts'
import type { FoundBase } from '../project/found-base.ts'
import { detectC } from './c/detect.ts'
import { detectShellScripts } from './fallbacks/shell-scripts.ts'
import { detectSimpleLanguages, unsupportedLanguageNotes } from './fallbacks/simple-languages.ts'
import { detectStaticSite } from './fallbacks/static-site.ts'
import type { Detector, Finding, FoundCommand, FoundPackage, FoundService, Verb } from './finding.ts'
import { detectFormats } from './formats/detect.ts'
import type { FormatFile, FoundPort } from './formats/format-file.ts'
import { detectGo } from './go/detect.ts'
import { ciPackages, ciTestCommand } from './instructions/ci-workflows.ts'
import { detectTasks } from './instructions/task-runners.ts'
import { detectJava } from './jvm/detect.ts'
import { detectNode } from './node/detect.ts'
import { detectPhp } from './php/detect.ts'
import { detectPython } from './python/detect.ts'
import { detectRust } from './rust/detect.ts'
import { detectServices, detectVariables } from './services/detect.ts'
import { detectDeno } from './small-languages/deno.ts'
import { detectDotnet } from './small-languages/dotnet.ts'
import { detectElixir } from './small-languages/elixir.ts'
import { detectRuby } from './small-languages/ruby.ts'

export interface Detected {
  readonly tree: FileTree
  /** Nearest to the root first. */
  readonly findings: readonly Finding[]
  readonly services: readonly FoundService[]
  readonly variables: readonly {
    readonly name: string
    readonly value: string
    readonly evidence: Evidence
  }[]
  readonly packages: readonly FoundPackage[]
  readonly ports: readonly FoundPort[]
  /** What files of other platforms and agents say, the strongest first. */
  readonly formats: readonly FormatFile[]
  /** Commands for verbs that no language covers: from task runners and CI. */
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
  /** Images and Dockerfiles that files name. The plan uses at most one, after the user's approval. */
  readonly bases: readonly FoundBase[]
  readonly notes: readonly string[]
}

/** Detectors of languages. The fallbacks below run only if none of these finds anything. */
const LANGUAGES: readonly Detector[] = [
  detectNode,
  detectPython,
  detectGo,
  detectRust,
  detectJava,
  detectC,
  detectRuby,
  detectPhp,
  detectDeno,
  detectDotnet,
  detectElixir,
]
/** Only the first fallback that finds something counts. */
const FALLBACKS: readonly Detector[] = [
  detectSimpleLanguages,
  (tree) => [...detectStaticSite(tree), ...detectShellScripts(tree)],
]

/** `only` are the files of other platforms, if they were read already. */
export function detect(tree: FileTree, only?: readonly FormatFile[]): Detected {
  const found = LANGUAGES.flatMap((detector) => detector(tree))
  const findings =
    found.length > 0 ? found : (FALLBACKS.map((one) => one(tree)).find((all) => all.length > 0) ?? [])
  const formats = only ?? detectFormats(tree)
  const test = ciTestCommand(tree)
  return {
    tree,
    findings: findings.toSorted((a, b) => depth(a.directory) - depth(b.directory)),
    services: [...formats.flatMap(({ services }) => services), ...detectServices(tree)],
    variables: detectVariables(tree),
    packages: [...formats.flatMap(({ packages }) => packages), ...ciPackages(tree)],
    ports: formats.flatMap(({ ports }) => ports),
    formats,
    commands: { ...(test && { test }), ...detectTasks(tree, '') },
    bases: formats.flatMap(({ bases }) => bases),
    notes: [...formats.flatMap(({ notes }) => notes), ...unsupportedLanguageNotes(tree, found.length > 0)],
  }
}

function depth(directory: string): number {
  return directory === '' ? 0 : directory.split('/').length
}
