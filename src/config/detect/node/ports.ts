/** Ports that a package's development server listens on. */
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { Finding } from '../finding.ts'
import { lineAt, readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { dependencyEvidence, type PackageJson, scriptEvidence } from './package-json.ts'

type Ports = NonNullable<Finding['ports']>

/** Default ports of frameworks, with the programs that start them. */
const FRAMEWORKS: readonly (readonly [dependency: string, program: RegExp, port: number])[] = [
  ['next', /\bnext\b/, 3000],
  ['nuxt', /\bnuxi?t?\b/, 3000],
  ['astro', /\bastro\b/, 4321],
  ['@angular/core', /\bng\b/, 4200],
  ['gatsby', /\bgatsby\b/, 8000],
  ['react-scripts', /\breact-scripts\b|\breact-app-rewired\b|\bcraco\b/, 3000],
  ['@docusaurus/core', /\bdocusaurus\b/, 3000],
  ['@vue/cli-service', /\bvue-cli-service\b/, 8080],
  ['@react-router/dev', /\breact-router\b/, 5173],
  ['@remix-run/dev', /\bremix\b/, 5173],
  ['@sveltejs/kit', /\bvite\b|\bsvelte-kit\b/, 5173],
  ['expo', /\bexpo\b/, 8081],
  ['@11ty/eleventy', /\beleventy\b/, 8080],
  ['vitepress', /\bvitepress\b/, 5173],
  ['webpack-dev-server', /\bwebpack(?:-dev-server| serve)\b/, 8080],
  ['parcel', /\bparcel\b/, 1234],
  ['vite', /\bvite\b/, 5173],
]
const DEV_SCRIPTS = ['dev', 'start:dev', 'serve', 'develop', 'start']
const MOST_PORTS = 10

export function nodePorts(tree: FileTree, packages: readonly PackageJson[]): Ports {
  const found = new Map<number, Ports[number]>()
  for (const manifest of packages) {
    const one = portOf(tree, manifest)
    if (one && !found.has(one.port) && found.size < MOST_PORTS) found.set(one.port, one)
  }
  return [...found.values()]
}

function portOf(tree: FileTree, manifest: PackageJson): Ports[number] | undefined {
  const name = DEV_SCRIPTS.find((one) => manifest.scripts.has(one))
  if (name === undefined) return undefined
  const script = (manifest.scripts.get(name) ?? '').slice(0, 2000)
  const written = /(?:--port[= ]|(?:^|\s)-p[= ]?|\bPORT=)(\d{2,5})\b/.exec(script)?.[1]
  if (written !== undefined) return isPort(written, scriptEvidence(manifest, name))
  const framework = FRAMEWORKS.find(
    ([dependency, program]) => manifest.dependencies.has(dependency) && program.test(script),
  )
  if (!framework) return undefined
  return (
    configuredPort(tree, manifest) ?? {
      port: framework[2],
      evidence: dependencyEvidence(manifest, framework[0]),
    }
  )
}

/** Vite and tools based on it have a configuration file with the port. */
function configuredPort(tree: FileTree, { directory }: PackageJson): Ports[number] | undefined {
  const name = tree.in(directory).find((one) => /^(?:vite|astro|nuxt)\.config\.[cm]?[jt]s$/.test(one))
  const file = name && joinPath(directory, name)
  const text = file && readTextFile(tree, file)
  const match = text
    ? /\b(?:server|devServer)\s{0,5}:\s{0,5}\{[^{}]{0,400}?\bport\s{0,5}:\s{0,5}(\d{2,5})\b/.exec(text)
    : null
  if (!match || !file || !text) return undefined
  const line = lineAt(text, match.index + match[0].lastIndexOf('port'))
  return isPort(match[1] ?? '', {
    file,
    line,
    said: shortQuote(match[0].slice(match[0].lastIndexOf('port'))),
  })
}

function isPort(written: string, evidence: Ports[number]['evidence']): Ports[number] | undefined {
  const port = Number(written)
  return port >= 1 && port <= 65_535 ? { port, evidence } : undefined
}
