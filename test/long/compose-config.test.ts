// Docker's own command reads every project beside ours. Differences are those of the documentation.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { compareCompose } from '../compat/compose/compare.ts'
import { DIFFERENCES } from '../compat/compose/differences.ts'
import { PROJECTS } from '../compat/compose/projects.ts'
import { dockerCompose } from '../support/docker-compose.ts'
import { ROOT } from '../support/world.ts'

const found = dockerCompose()
const skip = 'missing' in found ? found.missing : false
const program = 'program' in found ? found.program : ''

describe('compose files beside Docker’s own command', { skip }, () => {
  for (const project of PROJECTS)
    test(`CMP-21 both read: ${project.name}`, () => {
      const { ours, docker } = compareCompose(program, project)
      const differs = DIFFERENCES[project.name]
      assert.deepEqual(ours, differs ? differs.expected(docker) : docker)
      if (differs) assert.notDeepEqual(ours, docker)
    })

  test('CMP-21 each difference has a project and a reason in the documentation', () => {
    const page = readFileSync(join(ROOT, 'docs', 'guides', 'groups.md'), 'utf8').replaceAll(/\s+/g, ' ')
    assert.match(page, new RegExp(`reads ${PROJECTS.length} projects`))
    for (const [name, { documented }] of Object.entries(DIFFERENCES)) {
      assert.ok(
        PROJECTS.some((one) => one.name === name),
        name,
      )
      assert.ok(page.includes(documented), documented)
    }
  })
})
