/** Pages that are served as they are. */
import { shellWord } from '../../util/shell-word.ts'
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, within } from '../tree.ts'
import { packagesOf } from './debian.ts'
import type { Detector } from './finding.ts'
import { manifestAnywhere } from './manifests.ts'
import { inside } from './place.ts'
import { evidenceAt, linesIn, seek } from './seek.ts'

const PORT = 8000
/** Where pages lie that are all there is. */
const PLACES = ['', 'public', 'dist', 'site', 'www']

export const detectStatic: Detector = (tree) => {
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

/** A Staticfile says where they are, or that they are here. */
function siteOf(tree: FileTree): { readonly directory: string; readonly evidence: Evidence } | undefined {
  const named = seek(linesIn(tree, 'Staticfile'), /^[ \t]*root:[ \t]*["']?([\w./-]{1,200})/)
  const directory = named && inside('', named.match[1] ?? '')
  if (named && directory !== undefined)
    return { directory, evidence: evidenceAt('Staticfile', named.line, named.match[0]) }
  const page = PLACES.map((place) => within(place, 'index.html')).find((path) => tree.has(path))
  if (page !== undefined)
    return { directory: directoryOf(page), evidence: evidenceAt(page, undefined, 'index.html') }
  return tree.has('Staticfile')
    ? { directory: '', evidence: evidenceAt('Staticfile', undefined, 'Staticfile') }
    : undefined
}
