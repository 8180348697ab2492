import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { parseProject } from '../../config/project/project-file.ts'
import { isAgentPodError } from '../../core/error.ts'
import { parseName } from '../../core/id.ts'
import { checkBesideWorkspace } from './beside-workspace.ts'
import { mergedVolumes, volumeNameOf } from './project-volumes.ts'

const place = mkdtempSync(join(tmpdir(), 'agentpod-volumes-'))
after(() => rmSync(place, { recursive: true }))

function directory(...parts: string[]): string {
  const path = join(place, ...parts)
  mkdirSync(path, { recursive: true })
  return path
}

test('CF-03 no word of a project file names a volume of another project, or one that a person made', () => {
  const [one, other] = [directory('a', 'shop'), directory('b', 'shop')]
  const names = [one, other].map((path) => volumeNameOf({ directory: path, name: 'shop' }, 'cache'))
  assert.notEqual(names[0], names[1])
  for (const name of names) assert.match(name, /^shop-[0-9a-f]{8}\.cache$/)
  // The control: the word of the file is the end of the name, and cannot contain what separates the parts.
  for (const key of ['../x', 'a.b', 'x/y', 'Cache', names[1] ?? '', '']) {
    const text = `[volumes]\n${JSON.stringify(key)} = "/x"\n`
    assert.throws(() => parseProject({ file: 'agentpod.toml', text }), key)
  }
  assert.equal(
    parseProject({ file: 'agentpod.toml', text: '[volumes]\ncache = "/x"\n' }).data.volumes[0]?.name,
    'cache',
  )
})

test('the name of a project’s volume is a name, whatever the project is called', () => {
  const at = directory('odd')
  const key = 'k'.repeat(32)
  for (const name of ['Shop', '--', 'ä ö', 'x'.repeat(300), '.git', 'a_b.c', '-a-', '日本'])
    assert.equal(parseName(volumeNameOf({ directory: at, name }, key)).endsWith(`.${key}`), true, name)
})

test('a volume of the options replaces the one of the project’s file at the same path', () => {
  const own = [
    { volume: 'p.cache', path: '/cache' },
    { volume: 'p.data', path: '/data' },
  ]
  assert.deepEqual(mergedVolumes([{ volume: 'mine', path: '/data' }], own), {
    volumes: [
      { volume: 'mine', path: '/data' },
      { volume: 'p.cache', path: '/cache' },
    ],
  })
  assert.deepEqual(mergedVolumes(undefined, []), {})
})

test('a volume over the copy of the project is refused, and one beside or below it is not', () => {
  const workspace = '/home/user/shop'
  for (const path of ['/home', '/home/user', workspace])
    assert.throws(
      () => checkBesideWorkspace([{ volume: 'x', path }], workspace),
      (error) => isAgentPodError(error, 'invalid_argument') && error.reason === 'volume.workspace',
    )
  for (const path of ['/home/user/shop2', '/home/user/shop/node_modules', '/data'])
    checkBesideWorkspace([{ volume: 'x', path }], workspace)
})
