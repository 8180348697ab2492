import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseUser } from '../config-files.ts'
import { parseProject } from './project-file.ts'
import { EXAMPLES, projectReference, USER_EXAMPLE } from './reference.ts'
import { projectSchema } from './schema.ts'

const FILE = join(import.meta.dirname, '..', '..', '..', 'docs', 'reference', 'agentpod-toml.md')
const page = projectReference()

test('docs/reference/agentpod-toml.md is up to date (AGENTPOD_UPDATE_DOCS=1 writes it)', () => {
  if (process.env['AGENTPOD_UPDATE_DOCS'] === '1') writeFileSync(FILE, page)
  assert.ok(readFileSync(FILE, 'utf8') === page, 'run this test with AGENTPOD_UPDATE_DOCS=1')
})

describe('the page', () => {
  const sections = [...page.matchAll(/^## `\[([^`]*)\]`$/gm)].map(([, name = '']) => name)

  test('the reference page has a section and an example for each table', () => {
    for (const table of Object.keys(projectSchema.shape))
      assert.ok(
        sections.some((name) => name === table || name === `${table}.NAME`) ||
          page.includes(`\n| \`${table}\` |`),
        table,
      )
    assert.deepEqual(['', ...sections].toSorted(), Object.keys(EXAMPLES).toSorted())
  })

  test('the reference page has a row of four cells for each key', () => {
    const rows = page.split('\n').filter((line) => line.startsWith('| `'))
    assert.ok(rows.length > 60, String(rows.length))
    for (const row of rows) {
      const [, key, kind, , description] = row.split(' | ').length === 4 ? ['', ...row.split(' | ')] : []
      assert.ok(key && kind && kind !== 'undefined' && description, row)
    }
  })

  for (const [name, text] of Object.entries(EXAMPLES))
    test(`the example of ${name} can be read`, () => void parseProject({ file: name, text }))

  test('the example of the user’s own file can be read', () =>
    assert.equal(parseUser({ file: 'config.toml', text: USER_EXAMPLE }).privileges?.sudo, true))
})
