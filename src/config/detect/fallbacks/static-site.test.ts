import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectStaticSite } from './static-site.ts'

describe('static pages', () => {
  testDetector(detectStaticSite, [
    {
      name: 'pages at the root are served',
      files: { 'index.html': '' },
      finds: [
        { language: 'static', dev: 'python3 -m http.server 8000', ports: [8000], packages: ['python3'] },
      ],
    },
    {
      name: 'pages in public are served',
      files: { 'public/index.html': '' },
      finds: [{ start: 'python3 -m http.server 8000 --directory public' }],
    },
    {
      name: 'pages of an application are its own matter',
      files: { 'index.html': '', 'web/package.json': '{}' },
      finds: [],
    },
    {
      name: 'samples do not make an application',
      files: { 'index.html': '', 'examples/a/package.json': '{}' },
      finds: [{}],
    },
    { name: 'pages elsewhere are documentation', files: { 'docs/index.html': '' }, finds: [] },
  ])
})
