import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inactiveNotes } from '../compose/inactive-notes.ts'
import { composeWorkspace, type DevcontainerCompose, devcontainerCompose } from './compose-source.ts'
import { devcontainerSource, parseDevcontainer } from './devcontainer-file.ts'

const COMPOSE = `services:
  app: { image: a:1, volumes: ["../..:/workspaces", "..:/src"], depends_on: [db] }
  db: { image: d:1, depends_on: [disk] }
  disk: { image: d:1 }
  mail: { image: m:1 }
  tool: { image: t:1, profiles: [tools] }
`

function read(
  changes: object,
  files: Readonly<Record<string, string>> = { '.devcontainer/c.yml': COMPOSE },
): DevcontainerCompose {
  const json = { dockerComposeFile: 'c.yml', service: 'app', workspaceFolder: '/workspaces/shop', ...changes }
  const document = parseDevcontainer({
    file: '.devcontainer/devcontainer.json',
    text: JSON.stringify(json, null, 1),
  })
  const source = devcontainerSource(document.properties)
  assert.ok(source.kind === 'from-compose')
  const tree = {
    has: (file: string) => file in files,
    read: (file: string) => files[file],
    isLeftOut: () => false,
  }
  return devcontainerCompose({ document, source, tree, directory: '/home/me/shop' })
}

const names = ({ compose, left }: DevcontainerCompose): string =>
  `${compose.services.map(({ name }) => name).join(' ')} | ${left.join(' ')}`

describe('devcontainers of compose files', () => {
  test('DC-41 all active services run, or those of runServices with what they depend on', () => {
    assert.equal(names(read({})), 'disk db app mail | ')
    assert.equal(names(read({ runServices: [] })), 'disk db app mail | ')
    assert.equal(names(read({ runServices: ['app'] })), 'disk db app | mail')
    // A service that is named needs no profile, and does not start others of its profile.
    assert.equal(names(read({ runServices: ['tool'] })), 'disk db app tool | mail')
    assert.equal(names(read({ service: 'tool' })), 'disk db app mail tool | ')
    // Services that only their profiles leave out are named.
    assert.match(
      inactiveNotes(read({}).compose).join('\n'),
      /^\.devcontainer\/c\.yml:\d+: \w+ does not run, because no profile of it is active; --compose-profile \w+ starts it$/m,
    )
    const named = read({ runServices: ['tool'] }).compose
    assert.ok(!named.inactive.some(({ name }) => name === 'tool'))
  })

  test('DC-40 several files are one project, and without a name the usual file of the project is used', () => {
    const files = {
      '.devcontainer/c.yml': COMPOSE,
      'more.yml': 'services:\n  app: { image: a:2 }\n',
      'compose.yaml': 'services:\n  app: { image: usual:1 }\n',
    }
    assert.equal(read({ dockerComposeFile: ['c.yml', '../more.yml'] }, files).service.image, 'a:2')
    assert.equal(read({ dockerComposeFile: [] }, files).service.image, 'usual:1')
  })

  test('DC-40 the project is at its place in a mounted directory above it, and nothing beside it is', () => {
    const { service, compose } = read({})
    assert.deepEqual(
      service.mounts.map(({ kind, target }) => [kind, target]),
      [
        ['bind', '/workspaces/shop'],
        ['bind', '/src'],
      ],
    )
    assert.equal(composeWorkspace(service, '/workspaces/shop'), '/workspaces/shop')
    assert.equal(composeWorkspace(service, '/src/web'), '/src')
    assert.equal(composeWorkspace(service, '/elsewhere'), undefined)
    assert.match(compose.notes.map(({ said }) => said).join(), /only the project is at "\/workspaces"/)
    const outside = 'services:\n  app: { image: a:1, volumes: ["../../other:/other"] }\n'
    assert.throws(
      () => read({}, { '.devcontainer/c.yml': outside }),
      /c\.yml:2:\d+: .*"\.\.\/\.\.\/other" is not in the project/,
    )
  })

  test('DC-42 mistakes name the file and the line', () => {
    const place = String.raw`: \.devcontainer/devcontainer\.json`
    assert.throws(() => read({ service: 'ap' }), new RegExp(`${place}:3: service: \\S+ has no service "ap"`))
    assert.throws(() => read({ runServices: ['app', 'x'] }), new RegExp(`${place}:7: runServices: `))
    assert.throws(
      () => read({}, {}),
      new RegExp(`${place}:2: dockerComposeFile "c\\.yml": the project has no file`),
    )
    assert.throws(() => read({ dockerComposeFile: '/etc/x.yml' }), /:2: .*is outside the project/)
    assert.throws(() => read({ dockerComposeFile: [] }, {}), /:2: .*the project has no compose\.yaml/)
    assert.throws(() => read({}, { '.devcontainer/c.yml': 'services: [' }), /: \.devcontainer\/c\.yml:1:/)
  })
})
