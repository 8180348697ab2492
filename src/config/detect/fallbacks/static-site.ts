/** Static web sites. */
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { Detector } from '../finding.ts'
import { packagesOf } from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { manifestAnywhere } from '../project-files/manifests.ts'
import { pathInProject } from '../project-files/paths.ts'

const PORT = 8000
/** Directories that may hold the site. */
const PLACES = ['', 'public', 'dist', 'site', 'www']

export const detectStaticSite: Detector = (tree) => {
  const site = siteOf(tree)
  if (!site || manifestAnywhere(tree) !== undefined) return []
  const { directory, evidence } = site
  const folder = directory === '' ? '' : ` --directory ${shellWord(directory)}`
  const run = { run: `python3 -m http.server ${PORT}${folder}`, evidence }
  return [
    {
      language: 'static',
      directory: '',
      evidence,
      versions: [],
      tools: [],
      inputs: [],
      commands: { dev: run, start: run },
      packages: packagesOf('python3', evidence),
      generated: [],
      presets: [],
      ports: [{ port: PORT, evidence }],
    },
  ]
}

/** A Staticfile names the directory, or marks the project as a static site. */
function siteOf(tree: FileTree): { readonly directory: string; readonly evidence: Evidence } | undefined {
  const named = findLine(linesIn(tree, 'Staticfile'), /^[ \t]*root:[ \t]*["']?([\w./-]{1,200})/)
  const directory = named && pathInProject('', named.match[1] ?? '')
  if (named && directory !== undefined)
    return { directory, evidence: evidenceAt('Staticfile', named.line, named.match[0]) }
  const page = PLACES.map((place) => joinPath(place, 'index.html')).find((path) => tree.has(path))
  if (page !== undefined)
    return { directory: directoryOf(page), evidence: evidenceAt(page, undefined, 'index.html') }
  return tree.has('Staticfile')
    ? { directory: '', evidence: evidenceAt('Staticfile', undefined, 'Staticfile') }
    : undefined
}
