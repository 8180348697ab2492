/** Pages that are served as they are. */
import { packagesOf } from './debian.ts'
import type { Detector } from './finding.ts'
import { manifestAnywhere } from './manifests.ts'
import { evidenceAt } from './seek.ts'

const PORT = 8000

export const detectStatic: Detector = (tree) => {
  const page = ['index.html', 'public/index.html'].find((path) => tree.has(path))
  if (page === undefined || manifestAnywhere(tree) !== undefined) return []
  const evidence = evidenceAt(page, undefined, 'index.html')
  const folder = page === 'index.html' ? '' : ' --directory public'
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
